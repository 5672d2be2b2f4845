// Hello world on Go's net/http. usage: http_go PORT [CERT KEY]
package main

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"os"
)

func hello(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "Hello, world\n")
}

func main() {
	server := &http.Server{
		Addr:    "127.0.0.1:" + os.Args[1],
		Handler: http.HandlerFunc(hello),
		// Handshakes are measured: disable session tickets. Also disable HTTP/2.
		TLSConfig:    &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	if len(os.Args) > 3 {
		log.Fatal(server.ListenAndServeTLS(os.Args[2], os.Args[3]))
	}
	log.Fatal(server.ListenAndServe())
}
