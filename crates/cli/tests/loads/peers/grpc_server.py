"""A server of gRPC by grpcio, with reflection; prints its port. `echo.Echo` has a method of each kind, and one that fails."""

import sys
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection

NAME = "echo.Echo"
METHODS = {"Unary": (False, False), "Down": (False, True), "Up": (True, False), "Both": (True, True), "Fail": (False, False)}


def described():
    """Adds the service to the pool that reflection tells, and gives the class of its messages."""
    file = descriptor_pb2.FileDescriptorProto(name="echo.proto", package="echo", syntax="proto3")
    message = file.message_type.add(name="Message")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, (name, kind) in enumerate([("text", kinds.TYPE_STRING), ("count", kinds.TYPE_INT32)], 1):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL, json_name=name)
    service = file.service.add(name="Echo")
    for name, (client, server) in METHODS.items():
        service.method.add(name=name, input_type=".echo.Message", output_type=".echo.Message", client_streaming=client,
                           server_streaming=server)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("echo.Message"))


def down(asked, _):
    for _ in range(asked.count):
        time.sleep(0.005)
        yield asked


def up(asked, _):
    last = None
    for last in asked:
        pass
    return last


def both(asked, _):
    yield from asked


def fail(asked, context):
    context.abort(grpc.StatusCode.NOT_FOUND, f"nothing is called {asked.text}")


def main():
    message = described()
    kinds = {
        (False, False): grpc.unary_unary_rpc_method_handler, (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler, (True, True): grpc.stream_stream_rpc_method_handler,
    }
    behaviours = {"Unary": lambda asked, _: asked, "Down": down, "Up": up, "Both": both, "Fail": fail}
    handlers = {
        name: kinds[streams](behaviours[name], request_deserializer=message.FromString,
                             response_serializer=message.SerializeToString)
        for name, streams in METHODS.items()
    }
    compression = grpc.Compression.Gzip if "gzip" in sys.argv else grpc.Compression.NoCompression
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), compression=compression)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, handlers),))
    reflection.enable_server_reflection((NAME, reflection.SERVICE_NAME), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


main()
