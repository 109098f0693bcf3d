// Command ogen verifies an address with a client that ogen made: ogen URL KEY ADDRESS.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"probity/tools/generators/testdata/generated/ogen/client"
)

type key string

func (k key) ApiKey(context.Context, client.OperationName) (client.ApiKey, error) {
	return client.ApiKey{Token: string(k)}, nil
}

func main() {
	c, err := client.NewClient(os.Args[1], key(os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.VerifySingle(context.Background(), &client.VerifySingleReq{Email: os.Args[3]},
		client.VerifySingleParams{})
	if err != nil {
		log.Fatal(err)
	}
	result, ok := answer.(*client.ResultHeaders)
	if !ok {
		log.Fatalf("%T %v", answer, answer)
	}
	fmt.Println(result.Response.Status, result.Response.Score)
}
