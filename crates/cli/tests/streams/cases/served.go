// A server of HTTP/2 over TLS that answers each request with a thousand bytes: served PORT CERTIFICATE KEY
package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
)

func main() {
	content := []byte(strings.Repeat("x", 1024))
	handler := http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		response.Write(content)
	})
	fmt.Println(http.ListenAndServeTLS("127.0.0.1:"+os.Args[1], os.Args[2], os.Args[3], handler))
}
