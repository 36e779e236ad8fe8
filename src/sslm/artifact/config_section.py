"""The configuration of an artifact as canonical JSON."""

from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.errors.artifact import ContainerError
from sslm.errors.canonical_json import CanonicalJsonError
from sslm.errors.status import Status
from sslm.formats.bounded_reader import U32_MAX
from sslm.formats.sslm.canonical_json import JsonFields, JsonValue, decode_json, encode_json
from sslm.model.config import (
    ModelConfig,
    RopePairing,
    RopeScaling,
    RopeScalingKind,
    binary32_bits,
    binary32_from_bits,
)
from sslm.model.families import family_named
from sslm.model.fraction_bits import FRACTION_BITS_MAX, FractionBits, LayerFractionBits
from sslm.program.program import ARITHMETIC_VERSION

_SITES: Final = ("q", "k", "v", "gate", "up")
_TEXT_SIZE_CHARS_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSection:
    """What the section holds."""

    config: ModelConfig
    fraction_bits: FractionBits
    arithmetic_version: int


def encode_config(section: ConfigSection) -> bytes:
    """Return the section's bytes."""
    config, scaling = section.config, section.config.rope_scaling
    return encode_json(
        {
            "architecture": config.architecture,
            "arithmetic_version": section.arithmetic_version,
            "fraction_bits": {
                "layers": [
                    {site: getattr(layer, site) for site in _SITES}
                    for layer in section.fraction_bits.layers
                ],
                "residual": section.fraction_bits.residual,
            },
            "has_mlp_bias": config.has_mlp_bias,
            "has_o_bias": config.has_o_bias,
            "has_qkv_bias": config.has_qkv_bias,
            "head_dim": config.head_dim,
            "hidden_size": config.hidden_size,
            "intermediate_size": config.intermediate_size,
            "max_position_embeddings": config.max_position_embeddings,
            "num_attention_heads": config.num_attention_heads,
            "num_hidden_layers": config.num_hidden_layers,
            "num_key_value_heads": config.num_key_value_heads,
            "rms_norm_eps_binary32": binary32_bits("rms_norm_eps", config.rms_norm_eps),
            "rope_pairing": config.rope_pairing.value,
            "rope_scaling": None if scaling is None else _encode_scaling(scaling),
            "rope_theta_binary32": binary32_bits("rope_theta", config.rope_theta),
            "rotary_dim": config.rotary_dim,
            "tie_word_embeddings": config.tie_word_embeddings,
            "vocab_size": config.vocab_size,
        }
    )


def decode_config(data: memoryview) -> ConfigSection:
    """Read and check the section.

    Raises:
        ContainerError: If this release does not run the arithmetic of the file.
        ArtifactError: A JSON error, an error of ``sslm.errors.model``, or ContainerError if
            the fraction bits are not one set for each layer.
    """
    fields = JsonFields("config", decode_json(data, "config"))
    # The version comes first: fields may differ in another one, and it is the reason to state.
    version = fields.integer("arithmetic_version", at_least=0, at_most=U32_MAX)
    if version != ARITHMETIC_VERSION:
        raise ContainerError(Status.ARITHMETIC_VERSION, found=version, expected=ARITHMETIC_VERSION)
    fraction_bits = _read_fraction_bits(fields)
    config = _read_model_config(fields)
    fields.finish()
    layer_count = len(fraction_bits.layers)
    if layer_count != config.num_hidden_layers:
        raise ContainerError(
            Status.SECTIONS_DISAGREE,
            place="config.fraction_bits",
            what="layers",
            found=layer_count,
            expected=config.num_hidden_layers,
        )
    return ConfigSection(config=config, fraction_bits=fraction_bits, arithmetic_version=version)


def _read_model_config(fields: JsonFields) -> ModelConfig:
    return ModelConfig(
        architecture=family_named(fields.text("architecture", at_most=_TEXT_SIZE_CHARS_MAX)).name,
        vocab_size=_size(fields, "vocab_size"),
        hidden_size=_size(fields, "hidden_size"),
        intermediate_size=_size(fields, "intermediate_size"),
        num_hidden_layers=_size(fields, "num_hidden_layers"),
        num_attention_heads=_size(fields, "num_attention_heads"),
        num_key_value_heads=_size(fields, "num_key_value_heads"),
        head_dim=_size(fields, "head_dim"),
        rotary_dim=_size(fields, "rotary_dim"),
        rope_theta=binary32_from_bits("rope_theta", _size(fields, "rope_theta_binary32")),
        rope_scaling=_read_scaling(fields.take("rope_scaling")),
        rope_pairing=_read_pairing(fields),
        rms_norm_eps=binary32_from_bits("rms_norm_eps", _size(fields, "rms_norm_eps_binary32")),
        max_position_embeddings=_size(fields, "max_position_embeddings"),
        tie_word_embeddings=fields.boolean("tie_word_embeddings"),
        has_qkv_bias=fields.boolean("has_qkv_bias"),
        has_o_bias=fields.boolean("has_o_bias"),
        has_mlp_bias=fields.boolean("has_mlp_bias"),
    )


def _size(fields: JsonFields, key: str) -> int:
    """Take a number of at most 32 bits; ModelConfig names the tighter bound of each field."""
    return fields.integer(key, at_least=0, at_most=U32_MAX)


def _read_pairing(fields: JsonFields) -> RopePairing:
    found = fields.text("rope_pairing", at_most=_TEXT_SIZE_CHARS_MAX)
    if found not in list(RopePairing):
        raise CanonicalJsonError(
            Status.JSON_TEXT,
            place=f"{fields.place}.rope_pairing",
            found=found,
            expected=" or ".join(RopePairing),
        )
    return RopePairing(found)


def _encode_scaling(scaling: RopeScaling) -> JsonValue:
    factor = scaling.factor
    return {
        "factor_binary32": None if factor is None else binary32_bits("rope_scaling", factor),
        "kind": scaling.kind.value,
    }


def _read_scaling(value: JsonValue) -> RopeScaling | None:
    if value is None:
        return None
    fields = JsonFields("config.rope_scaling", value)
    kind = fields.text("kind", at_most=_TEXT_SIZE_CHARS_MAX)
    if kind not in list(RopeScalingKind):
        raise CanonicalJsonError(
            Status.JSON_TEXT,
            place="config.rope_scaling.kind",
            found=kind,
            expected=" or ".join(RopeScalingKind),
        )
    bits = fields.integer_or_none("factor_binary32", at_least=0, at_most=U32_MAX)
    fields.finish()
    factor = None if bits is None else binary32_from_bits("rope_scaling.factor", bits)
    return RopeScaling(kind=RopeScalingKind(kind), factor=factor)


def _read_fraction_bits(fields: JsonFields) -> FractionBits:
    inner = JsonFields("config.fraction_bits", fields.take("fraction_bits"))
    fraction_bits = FractionBits(
        residual=inner.integer("residual", at_least=0, at_most=FRACTION_BITS_MAX),
        layers=inner.items("layers", _read_layer, at_most=limits.LAYER_COUNT_MAX),
    )
    inner.finish()
    return fraction_bits


def _read_layer(place: str, value: JsonValue) -> LayerFractionBits:
    fields = JsonFields(place, value)
    sites = {site: fields.integer(site, at_least=0, at_most=FRACTION_BITS_MAX) for site in _SITES}
    fields.finish()
    return LayerFractionBits(**sites)
