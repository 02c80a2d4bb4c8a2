from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Beat(_message.Message):
    __slots__ = ("protocol", "version", "ready", "examples", "unfit")
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
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., ready: _Optional[bool] = ..., examples: _Optional[int] = ..., unfit: _Optional[bool] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("welcome", "work", "rest", "over", "refusal")
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
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., work: _Optional[_Union[Work, _Mapping]] = ..., rest: _Optional[_Union[Rest, _Mapping]] = ..., over: _Optional[_Union[Over, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("run", "number", "about", "beat")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    run: str
    number: int
    about: str
    beat: float
    def __init__(self, run: _Optional[str] = ..., number: _Optional[int] = ..., about: _Optional[str] = ..., beat: _Optional[float] = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("round", "attempt", "model", "size", "seconds", "counted")
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
    def __init__(self, round: _Optional[int] = ..., attempt: _Optional[int] = ..., model: _Optional[str] = ..., size: _Optional[int] = ..., seconds: _Optional[float] = ..., counted: _Optional[int] = ...) -> None: ...

class Rest(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: _Optional[float] = ...) -> None: ...

class Over(_message.Message):
    __slots__ = ("why", "model", "size", "counted")
    WHY_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    why: str
    model: str
    size: int
    counted: int
    def __init__(self, why: _Optional[str] = ..., model: _Optional[str] = ..., size: _Optional[int] = ..., counted: _Optional[int] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("why", "again")
    WHY_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    why: str
    again: float
    def __init__(self, why: _Optional[str] = ..., again: _Optional[float] = ...) -> None: ...

class Want(_message.Message):
    __slots__ = ("file", "start")
    FILE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    file: str
    start: int
    def __init__(self, file: _Optional[str] = ..., start: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("file", "start", "size", "content")
    FILE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    file: str
    start: int
    size: int
    content: bytes
    def __init__(self, file: _Optional[str] = ..., start: _Optional[int] = ..., size: _Optional[int] = ..., content: _Optional[bytes] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("start",)
    START_FIELD_NUMBER: _ClassVar[int]
    start: int
    def __init__(self, start: _Optional[int] = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ("run", "round", "attempt", "file", "size", "examples", "readings", "measures", "steps")
    class ReadingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class MeasuresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    READINGS_FIELD_NUMBER: _ClassVar[int]
    MEASURES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    run: str
    round: int
    attempt: int
    file: str
    size: int
    examples: int
    readings: _containers.ScalarMap[str, float]
    measures: _containers.ScalarMap[str, float]
    steps: int
    def __init__(self, run: _Optional[str] = ..., round: _Optional[int] = ..., attempt: _Optional[int] = ..., file: _Optional[str] = ..., size: _Optional[int] = ..., examples: _Optional[int] = ..., readings: _Optional[_Mapping[str, float]] = ..., measures: _Optional[_Mapping[str, float]] = ..., steps: _Optional[int] = ...) -> None: ...

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
    def __init__(self, outcome: _Optional[_Union[Verdict.Outcome, str]] = ..., why: _Optional[str] = ...) -> None: ...
