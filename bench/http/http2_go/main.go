// Hello world over HTTP/2 on Go: net/http with TLS, golang.org/x/net without. usage: http2_go PORT [CERT KEY]
package main

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"os"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
)

func hello(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "Hello, world\n")
}

func main() {
	server := &http.Server{
		Addr:      "127.0.0.1:" + os.Args[1],
		Handler:   http.HandlerFunc(hello),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true},
	}
	if len(os.Args) > 3 {
		log.Fatal(server.ListenAndServeTLS(os.Args[2], os.Args[3]))
	}
	server.Handler = h2c.NewHandler(server.Handler, &http2.Server{})
	log.Fatal(server.ListenAndServe())
}
