// A server that tells of each request its method, its target and the bytes of its body: seen PORT
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	handler := http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		count, err := io.Copy(io.Discard, request.Body)
		if err != nil {
			http.Error(response, "the body is cut", http.StatusBadRequest)
			return
		}
		response.Header().Set("X-Seen", fmt.Sprintf("%s %s %d", request.Method, request.RequestURI, count))
		response.Header().Set("Content-Length", "0")
	})
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Args[1], handler))
}
