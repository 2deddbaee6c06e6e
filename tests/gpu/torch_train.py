"""Trains a small network for a few steps and prints losses exactly, and the time of a step. generate: lets the small
language model continue texts, a token at a time, without training; what is printed is the mean of the last logits.

usage: torch_train.py resnet|gpt|generate [steps] [--paced]      results on stdout, times on stderr

Deterministic: the same losses must come out with and without the library. Batch and sequence sizes
vary from step to step, so that an allocator has something to do.
"""
import os

import pace

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch

torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
torch.backends.cuda.matmul.allow_tf32 = False
torch.manual_seed(7)


def resnet():
    import torchvision

    model = torchvision.models.resnet50().cuda()

    def step(i):
        batch = (16, 24, 20, 32)[i % 4]
        images = torch.randn(batch, 3, 160, 160, device="cuda")
        labels = torch.randint(0, 1000, (batch,), device="cuda")
        return torch.nn.functional.cross_entropy(model(images), labels)

    return model, step


def gpt():
    width, heads, vocabulary = 512, 8, 8192
    layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True)
    model = torch.nn.ModuleDict(
        {
            "embed": torch.nn.Embedding(vocabulary, width),
            "body": torch.nn.TransformerEncoder(layer, 8, enable_nested_tensor=False),
            "head": torch.nn.Linear(width, vocabulary),
        }
    ).cuda()

    def step(i):
        length = (128, 200, 333, 256, 480)[i % 5]
        tokens = torch.randint(0, vocabulary, (8, length + 1), device="cuda")
        mask = torch.nn.Transformer.generate_square_subsequent_mask(length, device="cuda")
        hidden = model["body"](model["embed"](tokens[:, :-1]), mask=mask)
        logits = model["head"](hidden)
        return torch.nn.functional.cross_entropy(
            logits.reshape(-1, vocabulary), tokens[:, 1:].reshape(-1)
        )

    return model, step


def generate():
    """48 tokens are added to eight texts in a step, which gets longer from token to token."""
    model, _ = gpt()
    model.eval()

    @torch.no_grad()
    def step(i):
        tokens = torch.randint(0, 8192, (8, 32 + i % 3 * 40), device="cuda")
        for _ in range(48):
            length = tokens.shape[1]
            mask = torch.nn.Transformer.generate_square_subsequent_mask(length, device="cuda")
            logits = model["head"](model["body"](model["embed"](tokens), mask=mask)[:, -1])
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
        return logits.mean()

    return model, step


def main():
    words = pace.arguments()
    model, forward = {"resnet": resnet, "gpt": gpt, "generate": generate}[words[0]]()
    steps = int(words[1]) if len(words) > 1 else 12
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        loss = forward(i)
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
        print(i, loss.item().hex())

    pace.run(step, steps, min(4, steps // 2), torch.cuda.synchronize)


main()
