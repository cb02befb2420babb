// A server and a load generator of HTTP/3 by quic-go: the peers of weir load over HTTP/3.
//
//	http3-peers serve ADDRESS CERTIFICATE KEY BYTES
//	    answers each request with so many bytes; POST and PUT with what came
//	http3-peers load URL CONNECTIONS STREAMS SECONDS
//	    asks in a closed loop and prints how many responses came, as JSON
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 6 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case len(os.Args) == 6 && os.Args[1] == "load":
		err = load(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	default:
		err = fmt.Errorf("write serve ADDRESS CERTIFICATE KEY BYTES, or load URL CONNECTIONS STREAMS SECONDS")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "http3-peers:", err)
		os.Exit(2)
	}
}

func serve(address, certificate, key, size string) error {
	bytes, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	// The first line says where: port 0 has the kernel choose.
	fmt.Println(socket.LocalAddr().String())
	content := make([]byte, bytes)
	handler := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodPost || request.Method == http.MethodPut {
			io.Copy(writer, request.Body)
			return
		}
		writer.Header().Set("Content-Type", "text/plain")
		writer.Header().Set("Content-Length", size)
		writer.Write(content)
	})
	server := http3.Server{
		Handler:    handler,
		TLSConfig:  http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
		QUICConfig: &quic.Config{Allow0RTT: true},
	}
	return server.Serve(socket)
}

func load(url, connections, streams, seconds string) error {
	var numbers [3]int
	for place, text := range []string{connections, streams, seconds} {
		number, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		numbers[place] = number
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(numbers[2])*time.Second)
	defer cancel()
	var answered, failed atomic.Uint64
	var users sync.WaitGroup
	for range numbers[0] {
		transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.Close()
		client := http.Client{Transport: transport}
		for range numbers[1] {
			users.Go(func() {
				for ctx.Err() == nil {
					if ask(&client, url) == nil {
						answered.Add(1)
					} else {
						failed.Add(1)
					}
				}
			})
		}
	}
	users.Wait()
	fmt.Printf("{\"requests\": %d, \"failed\": %d}\n", answered.Load(), failed.Load())
	return nil
}

func ask(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
