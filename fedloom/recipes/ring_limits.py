"""Limits of the study of He et al. 2019, as its page states them."""

from __future__ import annotations

from fedloom.recipes.part import Found
from fedloom.recipes.ring_setting import BASE, PULL


def limits(found: Found) -> str:
    """Return the limits of the study, and how its method differs from the published one."""
    changes = {name: found.series[f"coupling-{name}"].columns for name in ("ring", "server")
               if f"coupling-{name}" in found.series}  # fmt: skip
    measured = ""
    if len(changes) == 2:
        (_, weak, ring), (*_, server) = (changes[name]["change"] for name in ("ring", "server"))
        gap = 100 * (changes["ring"]["accuracy"][-1] - changes["ring"]["accuracy"][0])
        measured = f"""
  In one run of 100 rounds on MNIST, it changes the output layers on the ring by {ring:.1%} of their norm, where a
  thousandth of it changes them by {weak:.1%}: training amplifies any difference that much. At the server it changes
  them by {server:.1%}. The final accuracy on the ring changes by {abs(gap):.2f} points."""
    return f"""
## What limits this study

- **One partition.** Every run has the same workers with the same split of their data, so the intervals do not cover
  other workers or other splits.
- **The regulariser.** λ₁ is {BASE.lambda1:g} in every run. This is our choice, because the paper gives no value. By the
  equations below, the same λ₁ pulls (K/3)² times more strongly at the server than on a ring: {PULL["mnist"]} times with
  64 workers, {PULL["shakespeare"]} times with 16.{measured}
  What was recorded as "ring DPA-SGD-MTL" is therefore, in effect, DPA-SGD with private output layers.
- **Bandwidth.** The server's link has ten times the bandwidth of a worker's link. The time that a ring saves depends on
  this ratio.
- **Learning rates.** On MNIST the best learning rate of every method is at the edge of the grid ("The learning rate",
  below).
- **Bytes.** A worker's regulariser uses output layers of workers up to two hops away. The simulation reads them
  directly and does not count their bytes.

The multi-task method differs from the published formulas in these ways:

- The published gradient of an output layer multiplies w_k, which has d numbers, with Ω_i⁻¹, which is |M| × |M|.
  fedloom uses the derivative of the published objective: Σ_j Q[j, k]·w_j with Q[j, k] = λ₁ Σ_i (1/n_i)·(Ω_i⁻¹)[j, k].
- The published update is Ω_k ← η·(1/|M|)·(Σ_i (1/n_i)·Ω_i + (WᵀW)^½ / tr (WᵀW)^½). fedloom weights the two terms with
  1 - η and η, leaves out 1/n_i, and divides by the trace, because the published constraint is tr Ω_k = 1.
- The matrices Ω_i of neighbours describe different sets of workers. fedloom uses the entries of workers that both know.
- Before Ω is inverted, a tenth of its mean eigenvalue is added to its diagonal: Ω is singular where outputs are alike.
- Between two exchanges, the output layers of other workers stay as they were in the last exchange.
- The regulariser is a simulation with global knowledge. Q and Ω use output layers and matrices of workers two
  connections away, which an exchange along the graph does not deliver, and their bytes are not counted."""
