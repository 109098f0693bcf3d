package facade

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"probity/api/httpd"
)

// Prefix is what the paths of all façades begin with.
const Prefix = "/compat/"

// The routes that answer.
const (
	singlePath  = "/v1/verify/single"
	creditsPath = "/v1/credits"
)

// operation is one path of a vendor.
type operation struct {
	vendor  *vendor
	credits bool // the balance is requested, not a verdict
}

// Facades are the façades that are switched on.
type Facades struct{ operations map[string]operation }

// Names are the vendors that have a façade.
func Names() []string {
	var names []string
	for _, v := range vendors() {
		names = append(names, v.name)
	}
	return names
}

// New makes the façades of vendors by their names. An unknown name is an error that lists the known ones.
func New(names []string) (*Facades, error) {
	f := &Facades{operations: make(map[string]operation)}
	known := vendors()
	for _, name := range names {
		i := slices.IndexFunc(known, func(v *vendor) bool { return v.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no façade %q: known are %s", name, strings.Join(Names(), ", "))
		}
		v := known[i]
		for _, path := range v.verifyPaths {
			f.operations[Prefix+v.name+path] = operation{vendor: v}
		}
		for _, path := range v.creditsPaths {
			f.operations[Prefix+v.name+path] = operation{vendor: v, credits: true}
		}
	}
	return f, nil
}

// Owns reports whether a request is to a façade.
func (f *Facades) Owns(ctx *fasthttp.RequestCtx) bool {
	_, found := f.operations[string(ctx.Request.URI().PathOriginal())]
	return found && (ctx.IsGet() || ctx.IsPost())
}

// Handle translates a request to a façade for next, and the answer of next for the client.
func (f *Facades) Handle(ctx *fasthttp.RequestCtx, next fasthttp.RequestHandler) {
	o := f.operations[string(ctx.Request.URI().PathOriginal())]
	p, err := readParameters(ctx)
	o.rewrite(&ctx.Request, p, err != nil)
	if err != nil {
		ctx.SetConnectionClose() // the rest of the body is not read
	}
	next(ctx)
	o.translate(ctx, p, err)
}

// readParameters reads the query and the body of a request.
func readParameters(ctx *fasthttp.RequestCtx) (parameters, error) {
	var body []byte
	if stream := ctx.RequestBodyStream(); stream != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(stream, httpd.MaxJSON+1)); err != nil {
			return nil, errUnreadable
		}
	}
	return parse(string(ctx.URI().QueryString()), string(ctx.Request.Header.ContentType()), body)
}

// unreadable is the body of a request that could not be read: the route refuses it, after it has checked the key.
const unreadable = "{"

// chunkedLength is the length of a body in chunks, to fasthttp.
const chunkedLength = -1

// rewrite makes the request one to the route that answers it. A broken one is one that the route refuses.
func (o operation) rewrite(r *fasthttp.Request, p parameters, broken bool) {
	key := o.vendor.key(p, r.Header.PeekAll(fasthttp.HeaderAuthorization))
	r.Header.Del(fasthttp.HeaderAuthorization)
	r.Header.Del(fasthttp.HeaderCookie)
	r.Header.Del(fasthttp.HeaderContentEncoding)
	if key != "" {
		r.Header.Set(fasthttp.HeaderAuthorization, "Bearer "+key)
	}
	inChunks := r.Header.ContentLength() == chunkedLength
	r.ResetBody()
	if o.credits && !broken {
		r.Header.SetMethod(fasthttp.MethodGet)
		r.SetRequestURI(creditsPath)
		if !inChunks {
			r.Header.SetContentLength(0)
		}
		return
	}
	body := unreadable
	if !broken {
		body = o.vendor.body(p)
	}
	r.Header.SetMethod(fasthttp.MethodPost)
	r.Header.SetContentType("application/json")
	r.SetRequestURI(singlePath)
	length := len(body)
	if inChunks {
		length = chunkedLength // as the header of the request says, which is checked again
	}
	r.SetBodyStream(strings.NewReader(body), length)
}

// translate turns the answer of the route into the vendor's. broken is why the request could not be read.
func (o operation) translate(ctx *fasthttp.RequestCtx, p parameters, broken error) {
	status, body := ctx.Response.StatusCode(), ctx.Response.Body()
	if status != httpd.StatusOK {
		var refusal struct{ Detail string }
		_ = json.Unmarshal(body, &refusal) // without a detail there is nothing to say
		if broken != nil && status == fasthttp.StatusBadRequest {
			refusal.Detail = broken.Error()
		}
		status, answer := o.vendor.refusal(status, refusal.Detail)
		send(ctx, status, answer)
		return
	}
	if o.credits {
		var c credits
		if err := json.Unmarshal(body, &c); err != nil {
			panic("BUG: the credits are not JSON: " + err.Error())
		}
		send(ctx, status, o.vendor.balance(c))
		return
	}
	a := answer{sent: p[o.vendor.emailName].text}
	if err := json.Unmarshal(body, &a); err != nil {
		panic("BUG: the verdict is not JSON: " + err.Error())
	}
	send(ctx, status, o.vendor.verdict(&a))
}

func send(ctx *fasthttp.RequestCtx, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic("BUG: an answer is not JSON: " + err.Error())
	}
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBody(body)
}
