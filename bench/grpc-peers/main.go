// A server of gRPC for tests and measurements of its load: the service grpc.testing.TestService of gRPC's own
// interoperability tests, with reflection.
//
//	grpc-peers [CERTIFICATE KEY]: serves at a port of 127.0.0.1 that it prints, without reflection if REFLECTION=no
//
// UnaryCall answers as many bytes as it is asked for, or with the status that it is asked for. StreamingOutputCall sends
// messages of the sizes and at the intervals that it is asked for. StreamingInputCall counts what came.
// FullDuplexCall answers each message by those that it asks for. UnimplementedCall is not there.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	testing "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

type server struct {
	testing.UnimplementedTestServiceServer
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func payload(size int32) *testing.Payload {
	return &testing.Payload{Body: make([]byte, size)}
}

func (*server) EmptyCall(context.Context, *testing.Empty) (*testing.Empty, error) {
	return &testing.Empty{}, nil
}

func (*server) UnaryCall(ctx context.Context, asked *testing.SimpleRequest) (*testing.SimpleResponse, error) {
	if wanted := asked.GetResponseStatus(); wanted.GetCode() != 0 {
		return nil, status.Error(codes.Code(wanted.GetCode()), wanted.GetMessage())
	}
	if asked.GetFillUsername() {
		deadline, ok := ctx.Deadline()
		return &testing.SimpleResponse{Username: fmt.Sprint(ok, time.Until(deadline) > time.Second)}, nil
	}
	return &testing.SimpleResponse{Payload: payload(asked.GetResponseSize())}, nil
}

func send(parameters []*testing.ResponseParameters, one func(*testing.StreamingOutputCallResponse) error) error {
	for _, wanted := range parameters {
		time.Sleep(time.Duration(wanted.GetIntervalUs()) * time.Microsecond)
		if err := one(&testing.StreamingOutputCallResponse{Payload: payload(wanted.GetSize())}); err != nil {
			return err
		}
	}
	return nil
}

func (*server) StreamingOutputCall(asked *testing.StreamingOutputCallRequest, stream testing.TestService_StreamingOutputCallServer) error {
	return send(asked.GetResponseParameters(), stream.Send)
}

func (*server) StreamingInputCall(stream testing.TestService_StreamingInputCallServer) error {
	sum := 0
	for {
		asked, err := stream.Recv()
		if err == io.EOF {
			return stream.SendAndClose(&testing.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		sum += len(asked.GetPayload().GetBody())
	}
}

func (*server) FullDuplexCall(stream testing.TestService_FullDuplexCallServer) error {
	for {
		asked, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if wanted := asked.GetResponseStatus(); wanted.GetCode() != 0 {
			return status.Error(codes.Code(wanted.GetCode()), wanted.GetMessage())
		}
		if err := send(asked.GetResponseParameters(), stream.Send); err != nil {
			return err
		}
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	options := []grpc.ServerOption{}
	if len(os.Args) == 3 {
		made, err := credentials.NewServerTLSFromFile(os.Args[1], os.Args[2])
		check(err)
		options = append(options, grpc.Creds(made))
	}
	served := grpc.NewServer(options...)
	testing.RegisterTestServiceServer(served, &server{})
	if os.Getenv("REFLECTION") != "no" {
		reflection.Register(served)
	}
	fmt.Println(listener.Addr())
	check(served.Serve(listener))
}
