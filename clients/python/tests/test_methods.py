"""The table of rpcs against the .proto files."""

from __future__ import annotations

from typing import Any, Dict

from isomer_client import methods
from isomer_client.proto.encoder.v1 import encoder_pb2
from isomer_client.proto.eval.v1 import run_pb2, statistics_pb2, task_pb2
from isomer_client.proto.gateway.v1 import access_pb2, provider_pb2
from isomer_client.proto.transform.v1 import transform_pb2

FILES: Any = (encoder_pb2, run_pb2, statistics_pb2, task_pb2, access_pb2, provider_pb2, transform_pb2)


def declared() -> Dict[str, Any]:
    services = [service for file in FILES for service in file.DESCRIPTOR.services_by_name.values()]
    return {f"/{service.full_name}/{method.name}": method for service in services for method in service.methods}


def test_every_rpc_of_the_protos_is_in_the_table_with_its_messages() -> None:
    table: Dict[str, Any] = {one.path: one for one in vars(methods).values() if isinstance(one, methods.Method)}
    assert table.keys() == declared().keys()
    for path, method in declared().items():
        found = table[path]
        assert found.request.DESCRIPTOR is method.input_type, path
        assert found.response.DESCRIPTOR is method.output_type, path


def test_what_makes_something_is_not_repeated() -> None:
    once = {one.path.rpartition("/")[2] for one in vars(methods).values() if isinstance(one, methods.Method) and not one.repeatable}
    assert once == {"CreateKey", "CreateProvider", "UpdateProvider", "DeleteProvider", "DeleteRun"}
