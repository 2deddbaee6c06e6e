"""PyTorch tensors on the GPU shared between processes, both ways: a consumer sums what it is sent and writes into it."""
import torch
import torch.multiprocessing as mp

SIZES = (10, 1000, 70000, 500000, 3000000, 9000000)


def consume(inbox, outbox):
    torch.cuda.init()
    for _ in SIZES:
        tensor = inbox.get()
        outbox.put((tensor.numel(), float(tensor.double().sum()), float(tensor[-1])))
        tensor[tensor.numel() // 2] = -1
        torch.cuda.synchronize()
        del tensor
        outbox.put("written")


def main():
    mp.set_start_method("spawn")
    inbox, outbox = mp.Queue(), mp.Queue()
    process = mp.Process(target=consume, args=(inbox, outbox))
    process.start()
    kept = []
    for i, count in enumerate(SIZES):
        tensor = torch.full((count,), float(i + 1), device="cuda")
        tensor[-1] = 100 + i
        torch.cuda.synchronize()
        inbox.put(tensor)
        print("sent", count, "seen there:", outbox.get(timeout=60), outbox.get(timeout=60), "seen here:",
              float(tensor[count // 2]), float(tensor[0]))
        kept.append(tensor)
    process.join()
    print("ended with", process.exitcode)


if __name__ == "__main__":
    main()
