"""The messages of ``wire.proto``, built when the module is imported.

The code that ``protoc`` generates runs with one or two major versions of protobuf. The compiled description of the
messages (``wire.binpb``, made by ``make wire``) can be read by all of them, so fedloom can be installed beside
libraries that need an older protobuf, such as Flower. The types are in ``wire_pb2.pyi``.
"""

from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_pool = DescriptorPool()  # not the default pool, in which another library may have registered its own wire.proto
for _file in FileDescriptorSet.FromString(Path(__file__).with_name("wire.binpb").read_bytes()).file:
    _pool.Add(_file)
DESCRIPTOR = _pool.FindFileByName("wire.proto")

globals().update({name: GetMessageClass(kind) for name, kind in DESCRIPTOR.message_types_by_name.items()})
