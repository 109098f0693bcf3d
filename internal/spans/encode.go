package spans

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// The messages of OTLP, as its JSON encoding has them: ids in hexadecimal digits, times and integers of 64 bits as
// strings, enumerations as numbers.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource struct {
			Attributes []keyValue `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	scopeSpans struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []spanMessage `json:"spans"`
	}
	spanMessage struct {
		TraceID    string         `json:"traceId"`
		SpanID     string         `json:"spanId"`
		ParentID   string         `json:"parentSpanId,omitempty"`
		Name       string         `json:"name"`
		Kind       Kind           `json:"kind"`
		Start      string         `json:"startTimeUnixNano"`
		End        string         `json:"endTimeUnixNano"`
		Attributes []keyValue     `json:"attributes,omitempty"`
		Events     []eventMessage `json:"events,omitempty"`
		Status     *spanStatus    `json:"status,omitempty"`
	}
	spanStatus struct {
		Code int `json:"code"`
	}
	eventMessage struct {
		Time string `json:"timeUnixNano"`
		Name string `json:"name"`
	}
	keyValue struct {
		Key   string   `json:"key"`
		Value anyValue `json:"value"`
	}
	anyValue struct {
		Text   *string `json:"stringValue,omitempty"`
		Number *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
)

const statusError = 2

// encode returns the request that exports spans of a process with these attributes.
func encode(resource []attribute, batch []*Span) ([]byte, error) {
	scope := scopeSpans{Spans: make([]spanMessage, 0, len(batch))}
	scope.Scope.Name = "probity"
	for _, s := range batch {
		scope.Spans = append(scope.Spans, s.message())
	}
	of := resourceSpans{ScopeSpans: []scopeSpans{scope}}
	of.Resource.Attributes = keyValues(resource)
	return json.Marshal(exportRequest{ResourceSpans: []resourceSpans{of}})
}

func (s *Span) message() spanMessage {
	m := spanMessage{TraceID: hex.EncodeToString(s.place.trace[:]), SpanID: hex.EncodeToString(s.place.span[:]),
		Name: s.name, Kind: s.kind, Start: unixNano(s.start), End: unixNano(s.end), Attributes: keyValues(s.attrs)}
	if s.parent != [8]byte{} {
		m.ParentID = hex.EncodeToString(s.parent[:])
	}
	for _, e := range s.events {
		m.Events = append(m.Events, eventMessage{unixNano(e.at), e.name})
	}
	if s.failed {
		m.Status = &spanStatus{statusError}
	}
	return m
}

func unixNano(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

func keyValues(attrs []attribute) (list []keyValue) {
	for _, a := range attrs {
		var value anyValue
		switch v := a.value.(type) {
		case string:
			value.Text = &v
		case int:
			value.Number = new(strconv.Itoa(v))
		case bool:
			value.Bool = &v
		}
		list = append(list, keyValue{a.key, value})
	}
	return list
}
