"""A full card under PyTorch: nine tenths of the memory that it is told is free, freed, then training steps, whose libraries
take memory of their own. Prints results, never amounts."""
import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True, warn_only=True)
for turn in range(3):
    free, _ = torch.cuda.mem_get_info()
    block = torch.empty(free // 10 * 9, dtype=torch.uint8, device="cuda")
    block[: 1 << 20] = turn
    print("turn", turn, int(block[: 1 << 20].sum()))
    del block
    torch.cuda.empty_cache()
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32 * 30 * 30, 10)).cuda()
    loss = model(torch.ones(64, 3, 32, 32, device="cuda")).square().mean()
    loss.backward()
    print("loss %.6f" % loss.item())
    del model, loss
