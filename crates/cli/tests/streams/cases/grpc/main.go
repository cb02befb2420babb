// The health service of gRPC, and a client that asks it.
//
//	grpc serve PORT [CERTIFICATE KEY]
//	grpc ask PORT COUNT [CERTIFICATE]: half of COUNT about a service that is known, half about one that is not
//	grpc follow PORT COUNT [CERTIFICATE]: follows one service, whose state the server changes each 20 ms, for COUNT messages
//	grpc talk PORT COUNT [CERTIFICATE]: asks the service of reflection COUNT times in one call, each after the answer before
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(port string, files []string) {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	check(err)
	options := []grpc.ServerOption{}
	if len(files) == 2 {
		made, err := credentials.NewServerTLSFromFile(files[0], files[1])
		check(err)
		options = append(options, grpc.Creds(made))
	}
	server, states := grpc.NewServer(options...), health.NewServer()
	healthpb.RegisterHealthServer(server, states)
	reflection.Register(server)
	states.SetServingStatus("known", healthpb.HealthCheckResponse_SERVING)
	go func() {
		for turn := 0; ; turn++ {
			time.Sleep(20 * time.Millisecond)
			states.SetServingStatus("changing", healthpb.HealthCheckResponse_ServingStatus(1+turn%2))
		}
	}()
	check(server.Serve(listener))
}

func client(port string, files []string) *grpc.ClientConn {
	by := insecure.NewCredentials()
	if len(files) == 1 {
		made, err := credentials.NewClientTLSFromFile(files[0], "localhost")
		check(err)
		by = made
	}
	connection, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(by))
	check(err)
	return connection
}

func ask(asked healthpb.HealthClient, count int) {
	var all sync.WaitGroup
	for lane := 0; lane < 8; lane++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for turn := lane; turn < count; turn += 8 {
				name, expected := "known", codes.OK
				if turn/8%2 == 1 {
					name, expected = "unknown", codes.NotFound
				}
				_, err := asked.Check(context.Background(), &healthpb.HealthCheckRequest{Service: name})
				if status.Code(err) != expected {
					check(fmt.Errorf("%s: %v", name, err))
				}
			}
		}()
	}
	all.Wait()
}

func follow(asked healthpb.HealthClient, count int) {
	ended, end := context.WithCancel(context.Background())
	stream, err := asked.Watch(ended, &healthpb.HealthCheckRequest{Service: "changing"})
	check(err)
	for turn := 0; turn < count; turn++ {
		_, err := stream.Recv()
		check(err)
	}
	end()
	time.Sleep(50 * time.Millisecond)
}

func talk(asked reflectionpb.ServerReflectionClient, count int) {
	stream, err := asked.ServerReflectionInfo(context.Background())
	check(err)
	for turn := 0; turn < count; turn++ {
		check(stream.Send(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
		}))
		answer, err := stream.Recv()
		check(err)
		if len(answer.GetListServicesResponse().GetService()) == 0 {
			check(fmt.Errorf("no services: %v", answer))
		}
	}
	check(stream.CloseSend())
	if _, err := stream.Recv(); err != io.EOF {
		check(fmt.Errorf("no end: %v", err))
	}
}

func main() {
	what, port, rest := os.Args[1], os.Args[2], os.Args[3:]
	if what == "serve" {
		serve(port, rest)
		return
	}
	count, err := strconv.Atoi(rest[0])
	check(err)
	connection := client(port, rest[1:])
	switch what {
	case "ask":
		ask(healthpb.NewHealthClient(connection), count)
	case "follow":
		follow(healthpb.NewHealthClient(connection), count)
	case "talk":
		talk(reflectionpb.NewServerReflectionClient(connection), count)
	}
}
