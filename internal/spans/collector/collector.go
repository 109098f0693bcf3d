// Package collector is a collector of spans for tests: it reads what a Tracer of internal/spans exports.
package collector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Span is a span as it was exported.
type Span struct {
	Service    string // and name of the process, if it has one: probity/p1
	Trace, ID  string
	Parent     string // "" for none
	Name       string
	Kind       int
	Start, End time.Time
	Attributes map[string]any
	Events     []string
	Failed     bool
}

// Collector keeps all spans. The zero value is ready. It is a handler, and a transport that leads to the handler.
type Collector struct {
	mu     sync.Mutex // guards what follows
	bodies bytes.Buffer
	spans  []Span
}

// RoundTrip implements http.RoundTripper.
func (c *Collector) RoundTrip(q *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, q)
	return w.Result(), nil
}

// ServeHTTP takes spans, as OTLP says.
func (c *Collector) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var sent []Span
	if err == nil {
		sent, err = read(body)
	}
	if q.Method != http.MethodPost || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/json" {
		err = fmt.Errorf("%s %s with %s", q.Method, q.URL, q.Header)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies.Write(body)
	c.spans = append(c.spans, sent...)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

// Spans returns all spans, in the order in which they came.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Exported returns all that was sent.
func (c *Collector) Exported() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bodies.String()
}

// Tree shows the spans of a trace by their names, one a line, children below their parents, indented, by their starts.
func (c *Collector) Tree(trace string) string {
	var b strings.Builder
	all := c.Spans()
	slices.SortStableFunc(all, func(a, b Span) int { return a.Start.Compare(b.Start) })
	known := map[string]bool{}
	for i := range all {
		known[all[i].ID] = true
	}
	var show func(parent string, depth int)
	show = func(parent string, depth int) {
		for _, s := range all {
			isRoot := parent == "" && !known[s.Parent]
			if s.Trace == trace && (isRoot || parent != "" && s.Parent == parent) {
				fmt.Fprintf(&b, "%s%s %s\n", strings.Repeat("  ", depth), s.Service, s.Name)
				show(s.ID, depth+1)
			}
		}
	}
	show("", 0)
	return b.String()
}

type attributes []struct {
	Key   string
	Value struct {
		StringValue *string
		IntValue    *string
		BoolValue   *bool
	}
}

func (a attributes) values() (map[string]any, error) {
	m := map[string]any{}
	for _, one := range a {
		switch v := one.Value; {
		case v.StringValue != nil:
			m[one.Key] = *v.StringValue
		case v.BoolValue != nil:
			m[one.Key] = *v.BoolValue
		case v.IntValue != nil:
			n, err := strconv.Atoi(*v.IntValue)
			if err != nil {
				return nil, err
			}
			m[one.Key] = n
		default:
			return nil, fmt.Errorf("attribute %s has no value", one.Key)
		}
	}
	return m, nil
}

func read(body []byte) (spans []Span, err error) {
	var request struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes attributes }
			ScopeSpans []struct {
				Scope struct{ Name string }
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name string
					Kind                                int
					StartTimeUnixNano, EndTimeUnixNano  string
					Attributes                          attributes
					Events                              []struct{ TimeUnixNano, Name string }
					Status                              struct{ Code int }
				}
			}
		}
	}
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&request); err != nil {
		return nil, err
	}
	for _, resource := range request.ResourceSpans {
		of, err := resource.Resource.Attributes.values()
		if err != nil {
			return nil, err
		}
		service := fmt.Sprint(of["service.name"])
		if node := of["service.instance.id"]; node != nil {
			service += fmt.Sprint("/", node)
		}
		for _, scope := range resource.ScopeSpans {
			for _, m := range scope.Spans {
				s := Span{Service: service, Trace: m.TraceID, ID: m.SpanID, Parent: m.ParentSpanID, Name: m.Name,
					Kind: m.Kind, Failed: m.Status.Code == 2}
				if len(s.Trace) != 32 || len(s.ID) != 16 || s.Parent != "" && len(s.Parent) != 16 {
					return nil, fmt.Errorf("ids %q, %q, %q", s.Trace, s.ID, s.Parent)
				}
				if s.Attributes, err = m.Attributes.values(); err != nil {
					return nil, err
				}
				for _, e := range m.Events {
					s.Events = append(s.Events, e.Name)
				}
				if s.Start, err = readTime(m.StartTimeUnixNano); err != nil {
					return nil, err
				}
				if s.End, err = readTime(m.EndTimeUnixNano); err != nil {
					return nil, err
				}
				spans = append(spans, s)
			}
		}
	}
	return spans, nil
}

func readTime(text string) (time.Time, error) {
	ns, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(0, ns), err
}
