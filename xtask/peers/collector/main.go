// A collector that takes every message and keeps none: the end of the profiles of the OpenTelemetry profiler while its
// cost is measured. Prints its address.
package main

import (
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/protobuf/types/known/emptypb"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		// What it does not know of the message is kept aside, unread.
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		return stream.SendMsg(&emptypb.Empty{})
	}))
	log.Fatal(server.Serve(listener))
}
