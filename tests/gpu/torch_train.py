"""Trains a small network for a few steps and prints losses exactly, and the time of a step.

usage: torch_train.py resnet|gpt [steps]      results on stdout, times on stderr

Deterministic: the same losses must come out with and without the library. Batch and sequence sizes
vary from step to step, so that an allocator has something to do.
"""
import os
import sys
import time

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


def main():
    model, step = {"resnet": resnet, "gpt": gpt}[sys.argv[1]]()
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    warm = min(4, steps // 2)
    for i in range(steps):
        if i == warm:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = step(i)
        loss.backward()
        optimizer.step()
        print(i, loss.item().hex())
    torch.cuda.synchronize()
    print("ms_per_step %.2f" % ((time.perf_counter() - begin) * 1e3 / (steps - warm)), file=sys.stderr)


main()
