"""What can load a model's files: the catalogue of model servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

from serving.choices import Framework

if TYPE_CHECKING:
    from serving.models import Endpoint
    from work.fields import Text

V1, V2, OPENAI = "v1", "v2", "openai"  # KServe's first protocol, Open Inference, OpenAI's paths
CUSTOM = "custom"


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A model server: what it loads and speaks, and what it needs.

    ``environment`` has it on one machine; ``image`` is the word by which the operator of a cluster
    names the image that has it there.
    """

    word: str
    label: Text
    loads: tuple[str, ...]
    speaks: tuple[str, ...]
    environment: str = ""  # "": one machine does not have it
    environment_mib: int = 0
    image: str = ""
    health: str = "/v2/health/ready"
    needs_gpu: bool = False
    is_tested: bool = True  # on real parts by Berth's own tests


RUNTIMES = (
    Runtime(
        word="berth",
        label=_("Berth's model server"),
        loads=(Framework.SKLEARN, Framework.XGBOOST, Framework.LIGHTGBM, Framework.ONNX),
        speaks=(V1, V2),
        environment="serving",
        environment_mib=650,
        image="serving",
    ),
    Runtime(
        word="tensorflow",
        label=_("Berth's model server with TensorFlow"),
        loads=(Framework.TENSORFLOW,),
        speaks=(V1, V2),
        environment="serving-tensorflow",
        environment_mib=1400,
        image="serving-tensorflow",
    ),
    Runtime(
        word="pytorch",
        label=_("Berth's model server with PyTorch"),
        loads=(Framework.PYTORCH,),
        speaks=(V1, V2),
        environment="serving-pytorch",
        environment_mib=5300,
        image="serving-pytorch",
    ),
    Runtime(
        word="triton",
        label="NVIDIA Triton",
        loads=(Framework.TRITON,),  # a repository of models: a lone file is none
        speaks=(V2,),
        image="triton",
        needs_gpu=True,
        is_tested=False,
    ),
    Runtime(
        word="vllm",
        label="vLLM",
        loads=(Framework.HUGGINGFACE,),
        speaks=(OPENAI,),
        image="vllm",
        health="/health",
        needs_gpu=True,
        is_tested=False,
    ),
    Runtime(word=CUSTOM, label=_("A server of its own"), loads=(Framework.CUSTOM,), speaks=()),
)
BY_WORD = {one.word: one for one in RUNTIMES}


def runtimes_for(framework: str) -> tuple[Runtime, ...]:
    """Return those that load its files, the usual one first."""
    return tuple(one for one in RUNTIMES if framework in one.loads)


def runtime_of(row: Endpoint) -> Runtime:
    """Return what it is served by: what was said, else the usual one of its version."""
    if row.runtime:
        return BY_WORD[row.runtime]
    if row.version is None:
        return BY_WORD[CUSTOM]
    return runtimes_for(row.version.framework)[0]
