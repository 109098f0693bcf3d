// Command oapi verifies an address with a client that oapi-codegen made: oapi URL KEY ADDRESS.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"probity/tools/generators/testdata/generated/oapi/client"
)

func main() {
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Args[2])
		return nil
	}
	c, err := client.NewClientWithResponses(os.Args[1], client.WithRequestEditorFn(authorize))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.VerifySingleWithResponse(context.Background(), nil,
		client.VerifySingleJSONRequestBody{Email: os.Args[3]})
	if err != nil {
		log.Fatal(err)
	}
	if answer.JSON200 == nil {
		log.Fatalf("%s: %s", answer.Status(), answer.Body)
	}
	fmt.Println(answer.JSON200.Status, answer.JSON200.Score)
}
