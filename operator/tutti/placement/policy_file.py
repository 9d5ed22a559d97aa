"""A learned policy as a file: its numbers, which features these are of, and a checksum that says it is whole.

JSON, so that it can be a ConfigMap, be read and be compared. It is a score of at most two layers: numbers times
features, or numbers times tanh of numbers times features. What a file says is bounded before it is used: its size, how
many numbers it has, and how large they are; a number that is none cannot be written in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.placement.policy_features import FEATURES_VERSION, UnknownFeatureError, check_features

FORMAT: Final = "tutti-policy"
FORMAT_VERSION: Final = 1
MOST_BYTES: Final = 262_144
MOST_HIDDEN: Final = 64
"""How many numbers the inner layer may give."""
MOST_WEIGHT: Final = 1e4
"""How large a number may be, either way: features are within 0 and 1, and a score is full at 30."""
MOST_TOLD: Final = 32

Floats = NDArray[np.float64]


class PolicyFileError(ValueError):
    """A file that is no policy that can be used; the message says where, why, and what would be right."""


class PolicyFile(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What stands in the file.

    Attributes:
        format: `tutti-policy`; `version`, of the format.
        features_version: Of the meaning of the features; `features`, their names, in the order of the numbers.
        hidden: [h][features], the inner layer with its `hidden_bias` [h]; empty: there is none.
        output: [h], or [features] where there is no inner layer; with one `bias`.
        trained: What is to be known of where it comes from, for people.
        checksum: `sha256:` and the digest of the whole without it.
    """

    features: tuple[str, ...]
    output: tuple[float, ...]
    format: str = FORMAT
    version: int = FORMAT_VERSION
    features_version: int = FEATURES_VERSION
    hidden: tuple[tuple[float, ...], ...] = ()
    hidden_bias: tuple[float, ...] = ()
    bias: float = 0.0
    trained: Mapping[str, str] = {}
    checksum: str = ""


_DECODER = msgspec.json.Decoder(PolicyFile)


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicy:
    """A policy that was read from a file: a pure function of features.

    Attributes:
        policy_features: What it is told.
        checksum: Of its file.
        trained: Where it comes from.
    """

    policy_features: tuple[str, ...]
    policy_features_version: int
    checksum: str
    trained: Mapping[str, str]
    hidden: Floats
    hidden_bias: Floats
    output: Floats
    bias: float = 0.0

    def policy(self, features: Mapping[str, Floats]) -> Floats:
        """Return float64[m, k]: how good each node is, any number."""
        columns = np.stack([features[name] for name in self.policy_features], axis=-1)
        if len(self.hidden):
            columns = np.tanh(columns @ self.hidden.T + self.hidden_bias)
        answer: Floats = columns @ self.output + self.bias
        return answer


@dataclass(frozen=True, slots=True)
class UnreadPolicy:
    """Stands in for a policy whose file cannot be used: it has no opinion, and whoever asks is told why.

    Attributes:
        problem: Where the file is, what is wrong with it, and what would be right.
    """

    problem: str
    checksum: str = ""
    policy_features: tuple[str, ...] = field(default=(), init=False)
    policy_features_version: int = field(default=FEATURES_VERSION, init=False)

    def policy(self, features: Mapping[str, Floats]) -> Floats:  # noqa: ARG002 - the signature of a policy
        """Raise what is wrong.

        Raises:
            PolicyFileError: Always.
        """
        raise PolicyFileError(self.problem)


def digest(policy: PolicyFile) -> str:
    """Return the checksum that a file with these contents has."""
    bare = msgspec.structs.replace(policy, checksum="")
    return "sha256:" + hashlib.sha256(msgspec.json.encode(bare, order="deterministic")).hexdigest()


def write_policy(policy: PolicyFile) -> bytes:
    """Return the text of a file, with its checksum."""
    whole = msgspec.structs.replace(policy, checksum=digest(policy))
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def read_policy(data: bytes) -> LearnedPolicy:
    """Return the policy that a file holds.

    Raises:
        PolicyFileError: It is none that can be used here.
    """
    if len(data) > MOST_BYTES:
        raise PolicyFileError(f"it is larger than {MOST_BYTES} bytes")
    try:
        said = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PolicyFileError(f"it is no policy: {error}; `tutti simulate --learn` writes one") from None
    if said.format != FORMAT or said.version != FORMAT_VERSION:
        raise PolicyFileError(
            f"format: it is {said.format[:40]!r}, version {said.version}, and must be {FORMAT!r}, {FORMAT_VERSION}"
        )
    try:
        names = check_features(said.features_version, said.features)
    except UnknownFeatureError as error:
        raise PolicyFileError(f"features: {error}") from None
    _check_numbers(said)
    found = digest(said)
    if said.checksum != found:
        raise PolicyFileError(
            f"checksum: it is {said.checksum[:80]!r}, and what stands in the file has {found}: it was changed"
        )
    return LearnedPolicy(
        names,
        said.features_version,
        said.checksum,
        dict(said.trained),
        np.array(said.hidden, dtype=np.float64).reshape(len(said.hidden), len(names)),
        np.array(said.hidden_bias, dtype=np.float64),
        np.array(said.output, dtype=np.float64),
        float(said.bias),
    )


def _check_numbers(said: PolicyFile) -> None:
    """See that there are as many numbers as belong together, and none beyond what they may be.

    Raises:
        PolicyFileError: They are not.
    """
    many, inner = len(said.features), len(said.hidden)
    if inner > MOST_HIDDEN:
        raise PolicyFileError(f"hidden: it has {inner} rows, and may have {MOST_HIDDEN}")
    for place, row in enumerate(said.hidden):
        _check_row(f"hidden[{place}]", row, many)
    _check_row("hiddenBias", said.hidden_bias, inner)
    _check_row("output", said.output, inner or many)
    _check_row("bias", (said.bias,), 1)
    if len(said.trained) > MOST_TOLD:
        raise PolicyFileError(f"trained: it has {len(said.trained)} entries, and may have {MOST_TOLD}")


def _check_row(where: str, row: tuple[float, ...], many: int) -> None:
    if len(row) != many:
        raise PolicyFileError(f"{where}: it has {len(row)} numbers, and must have {many}")
    for place, number in enumerate(row):
        if not -MOST_WEIGHT <= number <= MOST_WEIGHT:
            raise PolicyFileError(
                f"{where}[{place}]: it is {number:g}, and must be within {-MOST_WEIGHT:g} and {MOST_WEIGHT:g}"
            )
