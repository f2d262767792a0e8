"""One update of the agent, written again from the equations: what `Learner.update` must compute.

Nothing here comes from `dsacc` but the names of the saved tensors. All numbers are float64. Gradients are torch's
autograd of the losses below. Multipliers are scipy's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp, softmax
from scipy.stats import norm
from torch import Tensor

NETWORKS = {"critic_optimizer": "critics.", "actor_optimizer": "actor.", "alpha_optimizer": "log_alpha"}
State = dict[str, Tensor]


@dataclass
class Expected:
    """What one update reports, and the gradient of each parameter by its name."""

    report: dict[str, float] = field(default_factory=dict)
    gradients: State = field(default_factory=dict)
    multipliers: list[dict[str, float]] = field(default_factory=list)  # one per constraint


def parameters(state: State, optimizer: str) -> list[str]:
    """The names of the parameters that an optimiser trains, in its order."""
    return [name for name in state if name.startswith(NETWORKS[optimizer])]


def gradient_taken(before: State, after: State, optimizer: str) -> State:
    """The gradients that Adam was given in one step: its first moment m becomes 0.9 m + 0.1 gradient."""
    out = {}
    for index, name in enumerate(parameters(after, optimizer)):
        key = f"{optimizer}.{index}.exp_avg"
        old = before[key].double() if key in before else 0.0
        out[name] = (after[key].double() - 0.9 * old) / 0.1
    return out


def adam_step(after: State, optimizer: str, rate: float, eps: float) -> State:
    """How far Adam moves each parameter, from its moments after the step (Kingma and Ba 2015, algorithm 1)."""
    out = {}
    for index, name in enumerate(parameters(after, optimizer)):
        first, second, count = (
            after[f"{optimizer}.{index}.{key}"].double() for key in ("exp_avg", "exp_avg_sq", "step")
        )
        out[name] = -rate * (first / (1 - 0.9**count)) / ((second / (1 - 0.999**count)).sqrt() + eps)
    return out


def one_update(
    config: Any, before: State, after: State, batch: Any, noise: Tensor, step: int, augmented: Tensor | None = None
) -> Expected:
    """`before` and `after` are the learner's states around the update. Of `after` only the critics are used.

    `augmented` are other pictures of the first states. Losses are means over all pictures. `of` says for each picture
    whose target, action, Q, multiplier and old entropy it takes. Reports are those of the batch alone. An action that
    a mask does not allow has the logit -1e9, so that its probability is 0.
    """
    size = len(batch.action_B)
    actions = before["actor.head.bias"].numel()
    allowed = torch.ones(size, actions).bool() if batch.mask_BA is None else batch.mask_BA
    of = torch.arange(size) if augmented is None else torch.cat((torch.arange(size), torch.arange(len(augmented))))
    clean = batch.observation.double()
    shown = clean if augmented is None else torch.cat((clean, augmented.double()))
    w = {name: value.double().requires_grad_() for name, value in before.items() if "optimizer" not in name}
    alpha = math.exp(before["log_alpha"].item())
    out = Expected(report={"alpha": alpha})
    errors = _critic_errors(config, w, batch, alpha, shown, of)
    out.report["critic_loss"] = errors[:size].mean().item()
    out.gradients |= _gradients(w, "critic_optimizer", errors.mean(), config.grad_clip)

    moved = w if config.shared_trunk else {name: value.double() for name, value in after.items()}
    q = _combined(config, _q(config, moved, "critics", clean)).detach()
    logits = _logits(w, "actor", "critics", shown).masked_fill(~allowed[of], -1e9)
    actors = softmax(logits.detach().numpy()[:size], axis=1)
    terms = _terms(config, q.numpy(), actors, alpha, noise.numpy(), allowed.numpy())
    pi, log_pi = torch.softmax(logits, dim=1), torch.log_softmax(logits, dim=1)
    costs = _actor_costs(config, pi, log_pi, q, terms, alpha, batch.entropy_B.double(), of, allowed)
    out.report["actor_loss"] = costs[:size].mean().item()
    (slope,) = torch.autograd.grad(costs.mean(), logits, retain_graph=True)
    if config.natural_gradient:
        slope = _without_fisher(pi.detach().numpy(), slope)
    out.gradients |= _gradients(w, "actor_optimizer", (logits * slope).sum(), config.grad_clip)

    entropy = -(pi * log_pi).sum(dim=1)[:size].mean().item()
    if config.alpha is None:
        final = config.target_entropy_ratio if config.target_entropy_final is None else config.target_entropy_final
        ratio = np.interp(step, [0, config.target_entropy_steps], [config.target_entropy_ratio, final])
        off = entropy - ratio * np.log(allowed.sum(dim=1).numpy()).mean()
        out.gradients |= _gradients(w, "alpha_optimizer", w["log_alpha"].exp() * off, config.grad_clip)
    surrogate = softmax(np.where(allowed, q.numpy() / max(alpha, 1e-30), -np.inf), axis=1)
    out.report |= {"entropy": entropy, "q_mean": q[allowed].mean().item()}
    out.report["expected_error"] = float(np.abs(((actors - surrogate) * q.numpy()).sum(axis=1)).mean())
    for f, target, lam, constrained in terms:
        out.multipliers.append(
            {
                "lambda": lam.mean(),
                "at_lower": (lam == 0).mean(),
                "at_upper": (lam == 1).mean(),
                "residual": ((constrained * f).sum(axis=1) - target).mean(),
                "violation": ((actors * f).sum(axis=1) - target).mean(),
            }
        )
    return out


# --- networks ---


def _mlp(w: State, prefix: str, x: Tensor) -> Tensor:
    for layer in (0, 2):
        x = (x @ w[f"{prefix}.body.{layer}.weight"].T + w[f"{prefix}.body.{layer}.bias"]).clamp(min=0)
    return x


def _q(config: Any, w: State, critics: str, x: Tensor) -> list[Tensor]:
    """Q of both critics, [B, A] each."""
    said = _heads(w, critics, x)
    if config.critic_loss != "hl-gauss":
        return said
    bins = [torch.softmax(one.reshape(len(x), -1, config.value_bins), dim=2) for one in said]
    width = 2 * config.value_limit / config.value_bins
    return [(one * (width * (torch.arange(config.value_bins) + 0.5) - config.value_limit)).sum(dim=2) for one in bins]


def _heads(w: State, critics: str, x: Tensor) -> list[Tensor]:
    """What both critics say. The second has an encoder of its own unless the trunk is shared."""
    own = f"{critics}.encoders.1.body.0.weight" in w
    features = [_mlp(w, f"{critics}.encoders.{k if own else 0}", x) for k in (0, 1)]
    return [features[k] @ w[f"{critics}.heads.{k}.weight"].T + w[f"{critics}.heads.{k}.bias"] for k in (0, 1)]


def _logits(w: State, actor: str, critics: str, x: Tensor) -> Tensor:
    if f"{actor}.encoder.body.0.weight" in w:
        features = _mlp(w, f"{actor}.encoder", x)
    else:
        features = _mlp(w, f"{critics}.encoders.0", x).detach()
    return features @ w[f"{actor}.head.weight"].T + w[f"{actor}.head.bias"]


def _combined(config: Any, q: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(q)).amin(dim=0) if config.critics == "min" else (q[0] + q[1]) / 2


def _gradients(w: State, optimizer: str, loss: Tensor, clip: float) -> State:
    names = parameters(w, optimizer)
    found = torch.autograd.grad(loss, [w[name] for name in names], retain_graph=True)
    norm = math.sqrt(sum(float(g.square().sum()) for g in found))
    shrink = clip / norm if 0 < clip < norm else 1.0
    return {name: shrink * g for name, g in zip(names, found, strict=True)}


# --- losses ---


def _critic_errors(config: Any, w: State, batch: Any, alpha: float, shown: Tensor, of: Tensor) -> Tensor:
    """Of both critics, added; one per picture."""
    following = batch.next_observation.double()
    which = "target_" if config.average_policy else ""
    logits = _logits(w, f"{which}actor", f"{which}critics", following)
    if batch.next_mask_BA is not None:
        logits = logits.masked_fill(~batch.next_mask_BA, -1e9)
    log_pi = torch.log_softmax(logits, dim=1).detach()
    bonus = config.critic_entropy * alpha
    values = (
        log_pi.exp() * (_combined(config, _q(config, w, "target_critics", following)).detach() - bonus * log_pi)
    ).sum(dim=1)
    wanted = []
    for rewards, steps, terminated, value in zip(
        batch.rewards_BN.tolist(), batch.steps_B.tolist(), batch.terminated_B.tolist(), values.tolist(), strict=True
    ):
        gained = sum(config.gamma**k * reward for k, reward in enumerate(rewards[:steps]))
        wanted.append(gained + (0.0 if terminated else config.gamma**steps * value))
    y = torch.tensor(wanted, dtype=torch.float64)
    pictures, total = torch.arange(len(shown)), torch.zeros(len(shown), dtype=torch.float64)
    if config.critic_loss == "hl-gauss":
        width = 2 * config.value_limit / config.value_bins
        edges = np.linspace(-config.value_limit, config.value_limit, config.value_bins + 1)
        mass = norm(y.clamp(edges[0], edges[-1]).numpy()[:, None], config.value_sigma * width).cdf(edges)
        goal = torch.from_numpy(np.diff(mass) / (mass[:, -1:] - mass[:, :1]))[of]
        for said in _heads(w, "critics", shown):
            logits = said.reshape(len(shown), -1, config.value_bins)[pictures, batch.action_B[of]]
            total = total - (goal * torch.log_softmax(logits, dim=1)).sum(dim=1)
        return total
    anchors = _q(config, w, "target_critics", batch.observation.double())
    for q, anchor in zip(_q(config, w, "critics", shown), anchors, strict=True):
        chosen, near = q[pictures, batch.action_B[of]], anchor[of, batch.action_B[of]].detach()
        error = _error(config, chosen - y[of])
        if config.q_clip > 0:
            clipped = near + (chosen - near).clamp(-config.q_clip, config.q_clip)
            error = torch.maximum(error, _error(config, clipped - y[of]))
        total = total + error
    return total


def _error(config: Any, difference: Tensor) -> Tensor:
    square = difference * difference
    if config.critic_loss == "mse":
        return square
    return torch.where(difference.abs() <= 1, square / 2, difference.abs() - 0.5)


def _actor_costs(
    config: Any,
    pi: Tensor,
    log_pi: Tensor,
    q: Tensor,
    terms: list[Any],
    alpha: float,
    old_entropy: Tensor,
    of: Tensor,
    allowed: Tensor,
) -> Tensor:
    """What the actor pays, one number per picture."""
    costs = (pi * (alpha * log_pi - q[of])).sum(dim=1)
    for f, target, lam, _ in terms:
        f, target, lam = (torch.from_numpy(np.ascontiguousarray(x))[of] for x in (f, target, lam))
        costs = costs + lam * ((pi * f).sum(dim=1) - target)
    entropy = -(pi * log_pi).sum(dim=1)
    costs = costs + config.entropy_penalty * (old_entropy[of] - entropy) ** 2 / 2
    if config.surrogate_kl > 0:
        surrogate = torch.softmax((q[of] / alpha).masked_fill(~allowed[of], -torch.inf), dim=1)
        divergence = (torch.special.xlogy(surrogate, surrogate) - surrogate * log_pi).sum(dim=1)
        costs = costs + config.surrogate_kl * alpha * divergence
    return costs


def _without_fisher(pi: np.ndarray, slope: Tensor) -> Tensor:
    """F^+ g per state, F = diag(pi) - pi pi^T being the softmax's Fisher matrix."""
    rows = [
        np.linalg.pinv(np.diag(p) - np.outer(p, p), rcond=1e-10) @ g for p, g in zip(pi, slope.numpy(), strict=True)
    ]
    return torch.from_numpy(np.stack(rows))


# --- constraints ---


def _terms(
    config: Any, q: np.ndarray, actors: np.ndarray, alpha: float, noise: np.ndarray, allowed: np.ndarray
) -> list[Any]:
    """f [B, A], target [B], lambda [B] and the constrained policy [B, A] of each constraint."""
    if config.constraint is None:
        return []
    eps = config.noise_std * noise if noise.size else np.zeros(1)
    if config.noise_relative:
        spread = np.array([row[some].std() for row, some in zip(q, allowed, strict=True)])
        eps = eps * (spread[:, None] if eps.ndim == 2 else spread)
    eps = np.broadcast_to(eps, q.shape if eps.ndim == 2 else q.shape[:1])
    seen = q + eps if config.perturbation == "values" else q
    noisy = q + eps if config.perturbation in ("weights", "values") else q
    weights = softmax(np.where(allowed, noisy / alpha, -np.inf), axis=1)
    mean = (weights * seen).sum(axis=1)
    variance = (weights * (seen - mean[:, None]) ** 2).sum(axis=1)
    shift = eps if config.perturbation == "target" else np.zeros(len(q))
    around = (actors * q).sum(axis=1) - shift
    every = {"mean": (q, mean - shift), "variance": ((q - around[:, None]) ** 2, variance)}
    chosen = list(every.values()) if config.constraint == "both" else [every[config.constraint]]
    f = np.stack([c[0] for c in chosen], axis=1)
    target = np.stack([c[1] for c in chosen], axis=1)
    heat = alpha if config.multiplier_form == "tempered" else 1.0
    if config.fixed_lambda is not None:
        lam = np.full(target.shape, config.fixed_lambda)
    else:
        rows = zip(q, f, target, allowed, strict=True)
        lam = np.stack([_solve(q_A[some], f_KA[:, some], wanted, heat) for q_A, f_KA, wanted, some in rows])
    constrained = softmax(np.where(allowed, (q - (lam[:, :, None] * f).sum(axis=1)) / heat, -np.inf), axis=1)
    return [(f[:, k], target[:, k], lam[:, k], constrained) for k in range(len(chosen))]


def _solve(q: np.ndarray, f: np.ndarray, target: np.ndarray, heat: float) -> np.ndarray:
    """The multipliers in [0, 1] that minimise heat log sum exp((q - lambda f) / heat) + lambda target."""

    def unmet(lam: np.ndarray) -> np.ndarray:
        return f @ softmax((q - lam @ f) / heat) - target

    if len(q) == 1:
        return np.zeros(len(f))
    if len(f) == 1:
        low, high = (float(unmet(np.array([end]))[0]) for end in (0.0, 1.0))
        if low <= 1e-9 or high >= 0:
            return np.array([0.0 if low <= 1e-9 else 1.0])
        return np.array([brentq(lambda lam: unmet(np.array([lam]))[0], 0.0, 1.0, xtol=1e-14)])
    found = minimize(
        lambda lam: heat * logsumexp((q - lam @ f) / heat) + lam @ target,
        np.full(len(f), 0.5),
        jac=lambda lam: -unmet(lam),
        bounds=[(0.0, 1.0)] * len(f),
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 1_000},
    )
    ends = np.rint(found.x)  # SciPy may stop a rounding error away from a bound, which depends on the processor
    return np.where(np.abs(found.x - ends) < 1e-12, ends, found.x)
