// Keeps each POSTed JSON body with a NUL behind it in a file: express.js PORT FILE. express.json() takes at most 100 kB by itself.
const { appendFileSync } = require("node:fs");
const express = require("express");

const [port, file] = process.argv.slice(2);
const app = express();
app.use(express.json());
app.post("/hook", (request, response) => {
  appendFileSync(file, JSON.stringify(request.body) + "\0");
  response.sendStatus(200);
});
app.listen(Number(port), "127.0.0.1");
