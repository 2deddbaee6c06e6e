"""JAX training steps of a small network, deterministic."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")
import jax
import jax.numpy as jnp

key = jax.random.PRNGKey(3)
w1 = jax.random.normal(key, (512, 1024)) * 0.02
w2 = jax.random.normal(key, (1024, 10)) * 0.02


def loss(w, x, y):
    return jnp.mean((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2)


step = jax.jit(lambda w, x, y: (loss(w, x, y), jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w, x, y))))
w = (w1, w2)
for i in range(30):
    x = jax.random.normal(jax.random.PRNGKey(i), (64 + 32 * (i % 3), 512))
    value, w = step(w, x, jnp.ones((x.shape[0], 10)))
    print(i, float(value).hex())
