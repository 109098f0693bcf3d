import createClient from "openapi-fetch";
import { expect, test } from "vitest";
import type { paths } from "./schema";

// tsc checks the types of this call: a member that has a default may be left out.
test("a request of the address alone is complete", async () => {
  const sent: unknown[] = [];
  const client = createClient<paths>({
    baseUrl: "http://api.example",
    fetch: async (request) => {
      sent.push(await request.json());
      return Response.json({ email: "ann@shop.example", status: "VALID" });
    },
  });
  const { data } = await client.POST("/v1/verify/single", { body: { email: "ann@shop.example" } });
  expect(sent).toEqual([{ email: "ann@shop.example" }]);
  expect(data?.status).toBe("VALID");
});
