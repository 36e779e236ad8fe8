"""The float32 forward pass of the llama architecture, as plainly as NumPy can say it.

Conversion and ``sslm eval`` measure the integer artifact against this model; nothing on the
inference path uses it. It promises the usual float32 accuracy, not the same bits everywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sslm import limits
from sslm.model.config import ModelConfig, RopePairing, RopeScalingKind

Float32Array = npt.NDArray[np.float32]


class WeightSource(Protocol):
    """Where the float32 weights come from."""

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        ...

    def tensor(self, name: str) -> Float32Array:
        """Return the weight of this canonical name, in the shape of ``weight_shapes``."""
        ...


@dataclass(slots=True)
class FloatCache:
    """Keys, already rotated, and values of the positions seen so far, one array per layer.

    Each array is float32 [positions, num_key_value_heads, head_dim].
    """

    keys: list[Float32Array] = field(default_factory=list)
    values: list[Float32Array] = field(default_factory=list)

    @property
    def positions(self) -> int:
        """How many positions have been seen."""
        return len(self.keys[0]) if self.keys else 0

    def append(self, layer: int, keys: Float32Array, values: Float32Array) -> None:
        """Add the rows of new positions to one layer."""
        if layer == len(self.keys):
            self.keys.append(keys)
            self.values.append(values)
        else:
            self.keys[layer] = np.concatenate((self.keys[layer], keys))
            self.values[layer] = np.concatenate((self.values[layer], values))


class FloatReference:
    """A llama-architecture model in float32.

    Args:
        source: The weights. Each is asked for once and kept while all that are kept together stay
            within *weights_size_bytes*; further ones are asked for at each use.
        weights_size_bytes: Bound of the weights kept.
    """

    def __init__(
        self,
        source: WeightSource,
        *,
        weights_size_bytes: int = limits.FLOAT_WEIGHTS_SIZE_BYTES_MAX,
    ) -> None:
        self._source = source
        self.config = source.config
        self._budget_bytes = weights_size_bytes
        self._kept: dict[str, Float32Array] = {}
        self._frequencies = self._rope_frequencies()

    def logits(self, token_ids: Sequence[int] | npt.NDArray[np.int64]) -> Float32Array:
        """Return the logits after every token of one window that starts from nothing.

        Args:
            token_ids: Ids from 0 to vocab_size - 1.

        Returns:
            float32 [tokens, vocab_size].
        """
        return self.head(self.hidden(token_ids, FloatCache()))

    def logits_blocks(
        self, token_ids: Sequence[int] | npt.NDArray[np.int64], rows_per_block: int
    ) -> Iterator[Float32Array]:
        """Yield the rows of :meth:`logits` in order, at most *rows_per_block* at a time."""
        hidden = self.hidden(token_ids, FloatCache())
        for first in range(0, len(hidden), rows_per_block):
            yield self.head(hidden[first : first + rows_per_block])

    def greedy(self, prompt_ids: Sequence[int], *, max_tokens: int) -> list[int]:
        """Continue a prompt with the likeliest token each time, ties to the lowest id.

        Args:
            prompt_ids: At least one id.
            max_tokens: How many ids to choose; no id stops it earlier.

        Returns:
            The chosen ids, without the prompt.
        """
        cache = FloatCache()
        chosen: list[int] = []
        pending = list(prompt_ids)
        for _ in range(max_tokens):
            last_row = self.hidden(pending, cache)[-1:]
            pending = [int(np.argmax(self.head(last_row)[0]))]
            chosen += pending
        return chosen

    def hidden(
        self, token_ids: Sequence[int] | npt.NDArray[np.int64], cache: FloatCache
    ) -> Float32Array:
        """Take in tokens after those of *cache*, which grows by them.

        Returns:
            float32 [tokens, hidden_size]: the residual rows after the last layer, not normalized.
        """
        positions = cache.positions + np.arange(len(token_ids))
        cosines, sines = self._rotations(positions)
        x: Float32Array = self._weight("embed")[np.asarray(token_ids, dtype=np.int64)]
        for layer in range(self.config.num_hidden_layers):
            normed = self._norm(x, f"layers.{layer}.input_layernorm")
            x = x + self._attention(layer, normed, cosines, sines, cache)
            normed = self._norm(x, f"layers.{layer}.post_attention_layernorm")
            x = x + self._feed_forward(layer, normed)
        return x

    def head(self, hidden: Float32Array) -> Float32Array:
        """Return the logits, float32 [rows, vocab_size], of residual rows [rows, hidden_size]."""
        name = "embed" if self.config.tie_word_embeddings else "lm_head"
        return self._norm(hidden, "final_norm") @ self._weight(name).T

    def _attention(
        self,
        layer: int,
        x: Float32Array,
        cosines: Float32Array,
        sines: Float32Array,
        cache: FloatCache,
    ) -> Float32Array:
        config, prefix = self.config, f"layers.{layer}"
        rows, kv_heads = len(x), config.num_key_value_heads
        group = config.num_attention_heads // kv_heads
        has_bias = config.has_qkv_bias
        q = self._linear(x, f"{prefix}.q_proj", has_bias).reshape(rows, -1, config.head_dim)
        k = self._linear(x, f"{prefix}.k_proj", has_bias).reshape(rows, -1, config.head_dim)
        v = self._linear(x, f"{prefix}.v_proj", has_bias).reshape(rows, -1, config.head_dim)
        cache.append(layer, self._rotate(k, cosines, sines), v)
        keys, values = cache.keys[layer], cache.values[layer]
        # Consecutive query heads share one key/value head: [kv_heads, group * rows, head_dim].
        queries = self._rotate(q, cosines, sines).transpose(1, 0, 2)
        queries = queries.reshape(kv_heads, group * rows, config.head_dim)
        scores = queries @ keys.transpose(1, 2, 0) * np.float32(config.head_dim**-0.5)
        scores = scores.reshape(kv_heads, group, rows, len(keys))
        first = len(keys) - rows
        is_later = np.arange(len(keys)) > first + np.arange(rows)[:, np.newaxis]
        scores[..., is_later] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        weights = weights.reshape(kv_heads, group * rows, len(keys))
        mixed = (weights @ values.transpose(1, 0, 2)).reshape(-1, rows, config.head_dim)
        mixed = mixed.transpose(1, 0, 2).reshape(rows, config.query_size)
        return self._linear(mixed, f"{prefix}.o_proj", config.has_o_bias)

    def _feed_forward(self, layer: int, x: Float32Array) -> Float32Array:
        prefix, has_bias = f"layers.{layer}", self.config.has_mlp_bias
        gate = self._linear(x, f"{prefix}.gate_proj", has_bias)
        up = self._linear(x, f"{prefix}.up_proj", has_bias)
        # x * sigmoid(x), the sigmoid through tanh, which cannot overflow.
        silu = gate * (np.float32(0.5) + np.float32(0.5) * np.tanh(np.float32(0.5) * gate))
        return self._linear(silu * up, f"{prefix}.down_proj", has_bias)

    def _norm(self, x: Float32Array, name: str) -> Float32Array:
        mean_square = np.mean(x * x, axis=-1, keepdims=True)
        normed: Float32Array = x / np.sqrt(mean_square + np.float32(self.config.rms_norm_eps))
        return normed * self._weight(name)

    def _linear(self, x: Float32Array, name: str, has_bias: bool) -> Float32Array:
        y: Float32Array = x @ self._weight(name).T
        return y + self._weight(f"{name}.bias") if has_bias else y

    def _rotate(
        self, heads: Float32Array, cosines: Float32Array, sines: Float32Array
    ) -> Float32Array:
        """Turn pairs of [rows, heads, head_dim] by angles [rows, 1, rotary_dim / 2]."""
        rotary_dim = self.config.rotary_dim
        if self.config.rope_pairing is RopePairing.INTERLEAVED:
            first, second = slice(0, rotary_dim, 2), slice(1, rotary_dim, 2)
        else:
            first, second = slice(0, rotary_dim // 2), slice(rotary_dim // 2, rotary_dim)
        turned = heads.copy()
        turned[..., first] = heads[..., first] * cosines - heads[..., second] * sines
        turned[..., second] = heads[..., first] * sines + heads[..., second] * cosines
        return turned

    def _rotations(self, positions: npt.NDArray[np.int64]) -> tuple[Float32Array, Float32Array]:
        angles = positions[:, np.newaxis, np.newaxis] * self._frequencies
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def _rope_frequencies(self) -> npt.NDArray[np.float64]:
        """Return radians per position, float64 [rotary_dim / 2] (RoFormer, arXiv:2104.09864)."""
        config = self.config
        exponents = -2.0 * np.arange(config.rotary_dim // 2) / config.rotary_dim
        frequencies: npt.NDArray[np.float64] = float(config.rope_theta) ** exponents
        scaling = config.rope_scaling
        if scaling is None:
            return frequencies
        if scaling.kind is RopeScalingKind.LLAMA3:
            return frequencies / self._source.tensor("rope_factors")
        return frequencies / float(scaling.factor or 1)

    def _weight(self, name: str) -> Float32Array:
        if name in self._kept:
            return self._kept[name]
        weight = self._source.tensor(name)
        if weight.nbytes <= self._budget_bytes:
            self._budget_bytes -= weight.nbytes
            self._kept[name] = weight
        return weight
