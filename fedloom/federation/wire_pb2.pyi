from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar

from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper

DESCRIPTOR: _descriptor.FileDescriptor

class Beat(_message.Message):
    __slots__ = ("examples", "protocol", "ready", "unfit", "version")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    UNFIT_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    ready: bool
    examples: int
    unfit: bool
    def __init__(
        self,
        protocol: int | None = ...,
        version: str | None = ...,
        ready: bool | None = ...,
        examples: int | None = ...,
        unfit: bool | None = ...,
    ) -> None: ...

class Order(_message.Message):
    __slots__ = ("over", "refusal", "rest", "welcome", "work")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    REST_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    work: Work
    rest: Rest
    over: Over
    refusal: Refusal
    def __init__(
        self,
        welcome: Welcome | _Mapping | None = ...,
        work: Work | _Mapping | None = ...,
        rest: Rest | _Mapping | None = ...,
        over: Over | _Mapping | None = ...,
        refusal: Refusal | _Mapping | None = ...,
    ) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("about", "beat", "number", "run")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    run: str
    number: int
    about: str
    beat: float
    def __init__(
        self, run: str | None = ..., number: int | None = ..., about: str | None = ..., beat: float | None = ...
    ) -> None: ...

class Work(_message.Message):
    __slots__ = ("attempt", "counted", "model", "round", "seconds", "size")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    round: int
    attempt: int
    model: str
    size: int
    seconds: float
    counted: int
    def __init__(
        self,
        round: int | None = ...,
        attempt: int | None = ...,
        model: str | None = ...,
        size: int | None = ...,
        seconds: float | None = ...,
        counted: int | None = ...,
    ) -> None: ...

class Rest(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: float | None = ...) -> None: ...

class Over(_message.Message):
    __slots__ = ("counted", "model", "size", "why")
    WHY_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    why: str
    model: str
    size: int
    counted: int
    def __init__(
        self, why: str | None = ..., model: str | None = ..., size: int | None = ..., counted: int | None = ...
    ) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("again", "why")
    WHY_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    why: str
    again: float
    def __init__(self, why: str | None = ..., again: float | None = ...) -> None: ...

class Want(_message.Message):
    __slots__ = ("file", "start")
    FILE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    file: str
    start: int
    def __init__(self, file: str | None = ..., start: int | None = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("content", "file", "size", "start")
    FILE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    file: str
    start: int
    size: int
    content: bytes
    def __init__(
        self, file: str | None = ..., start: int | None = ..., size: int | None = ..., content: bytes | None = ...
    ) -> None: ...

class Place(_message.Message):
    __slots__ = ("start",)
    START_FIELD_NUMBER: _ClassVar[int]
    start: int
    def __init__(self, start: int | None = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ("attempt", "examples", "file", "measures", "readings", "round", "run", "size")
    class ReadingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: str | None = ..., value: float | None = ...) -> None: ...

    class MeasuresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: str | None = ..., value: float | None = ...) -> None: ...

    RUN_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    READINGS_FIELD_NUMBER: _ClassVar[int]
    MEASURES_FIELD_NUMBER: _ClassVar[int]
    run: str
    round: int
    attempt: int
    file: str
    size: int
    examples: int
    readings: _containers.ScalarMap[str, float]
    measures: _containers.ScalarMap[str, float]
    def __init__(
        self,
        run: str | None = ...,
        round: int | None = ...,
        attempt: int | None = ...,
        file: str | None = ...,
        size: int | None = ...,
        examples: int | None = ...,
        readings: _Mapping[str, float] | None = ...,
        measures: _Mapping[str, float] | None = ...,
    ) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("outcome", "why")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Verdict.Outcome]
        COUNTED: _ClassVar[Verdict.Outcome]
        LATE: _ClassVar[Verdict.Outcome]
        REFUSED: _ClassVar[Verdict.Outcome]
        MISSING: _ClassVar[Verdict.Outcome]

    UNKNOWN: Verdict.Outcome
    COUNTED: Verdict.Outcome
    LATE: Verdict.Outcome
    REFUSED: Verdict.Outcome
    MISSING: Verdict.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    outcome: Verdict.Outcome
    why: str
    def __init__(self, outcome: Verdict.Outcome | str | None = ..., why: str | None = ...) -> None: ...
