package callback

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxHeaders is the most headers that a job may add to its callback.
const maxHeaders = 10

// ErrHeaders begins every refusal of a job's headers; the text after it says what to do, and has no value of a header.
var ErrHeaders = errors.New("callback_headers")

// reservedHeaders are set by the sender, or concern one connection only (RFC 9110 section 7.6.1).
var reservedHeaders = map[string]bool{
	"Connection": true, "Expect": true, "Host": true, "Keep-Alive": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true,
	"Proxy-Connection":    true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// ParseHeaders reads the headers that a job adds to its callback: a JSON object of strings. Names are in their
// canonical form.
func ParseHeaders(text string) (map[string]string, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, refuseHeaders("it must be a JSON object such as {\"Authorization\": \"Bearer TOKEN\"}")
	}
	headers := map[string]string{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, refuseHeaders("it is not JSON")
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name.(string)) // the decoder requires a string here
		if _, twice := headers[canonical]; twice {
			return nil, refuseHeaders("%s is there twice; send it once", canonical)
		}
		value, err := dec.Token()
		if err != nil {
			return nil, refuseHeaders("it is not JSON")
		}
		s, ok := value.(string)
		if !ok {
			return nil, refuseHeaders("%q must have a string as its value", canonical)
		}
		if err := checkHeader(canonical, s); err != nil {
			return nil, err
		}
		headers[canonical] = s
	}
	if _, err := dec.Token(); err != nil {
		return nil, refuseHeaders("it is not JSON")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, refuseHeaders("text follows the JSON object; end it there")
	}
	if len(headers) == 0 || len(headers) > maxHeaders {
		return nil, refuseHeaders("it must have 1 to %d headers", maxHeaders)
	}
	return headers, nil
}

// checkHeader refuses a header that a callback cannot have. Its name is in canonical form, if it can be.
func checkHeader(name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return refuseHeaders("%q is not a name of a header; use letters, digits and hyphens", name)
	case reservedHeaders[name], strings.HasPrefix(name, "Content-"), strings.HasPrefix(name, "Webhook-"):
		return refuseHeaders("%s is set by this service or concerns the connection; remove it", name)
	case value == "" || strings.Trim(value, " \t") != value:
		return refuseHeaders("the value of %s is empty, or begins or ends with white space", name)
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c >= 0x7f { // a receiver need not understand others (RFC 9110 section 5.5)
			return refuseHeaders("the value of %s must be printable ASCII", name)
		}
	}
	return nil
}

func refuseHeaders(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrHeaders}, args...)...)
}
