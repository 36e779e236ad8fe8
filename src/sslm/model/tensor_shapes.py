"""Which tensors an artifact of a model holds, in which encoding and shape."""

from sslm.errors.program import TensorSetError
from sslm.model.config import ModelConfig
from sslm.model.families import weight_shapes
from sslm.program.tensors import Encoding, Tensors

TensorShapes = dict[str, tuple[Encoding, tuple[int, ...]]]


def tensor_shapes(config: ModelConfig) -> TensorShapes:
    """Return encoding and shape of every tensor of the artifact, by name, in a fixed order.

    A matrix of PANEL_INT8 may have PANEL_INT4 instead, each for itself. Matrices come with their
    row scales (``NAME.mantissas``); the rotary tables replace what the source has as factors.
    """
    shapes: TensorShapes = {}
    for name, shape in weight_shapes(config).items():
        if name == "rope_factors":
            continue
        if len(shape) == 1:
            shapes[name] = Encoding.INT32, shape
            continue
        shapes[name] = Encoding.PANEL_INT8, shape
        shapes[f"{name}.mantissas"] = Encoding.INT32, shape[:1]
    # A tied head has the embedding's codes, at scales of its own.
    shapes["lm_head.mantissas"] = Encoding.INT32, (config.vocab_size,)
    for name in ("rope.cos", "rope.sin"):
        shapes[name] = Encoding.INT32, (config.max_position_embeddings, config.rotary_dim // 2)
    return shapes


def check_tensors(config: ModelConfig, tensors: Tensors) -> None:
    """Raise unless exactly the tensors of the architecture are there, each as it must be.

    Raises:
        TensorSetError: Naming the first tensor that is missing, unknown, or of another shape.
    """
    expected = tensor_shapes(config)
    for name, (encoding, shape) in expected.items():
        if name not in tensors:
            raise TensorSetError(name, "absent", f"{encoding.name} {shape}")
        tensor = tensors[name]
        is_fitting = tensor.encoding.is_matrix == encoding.is_matrix
        if not is_fitting or tensor.shape != shape:
            found = f"{tensor.encoding.name} {tensor.shape}"
            raise TensorSetError(name, found, f"{encoding.name} {shape}")
    for name in tensors:
        if name not in expected:
            raise TensorSetError(name, "present", "no such tensor")
