package api

import (
	"io"
	"strings"
	"time"

	"probity/coordinator"
)

// maxName bounds the name of a job, in bytes.
const maxName = 200

// bulkForm is the form of an upload, whose parts are read one after another, in any order.
type bulkForm struct {
	*form
	bulkOptions
}

// bulkOptions are the parts of an upload that are not the file.
type bulkOptions struct {
	callbackURL, callbackContent string
	callbackInput                bool
	name, column                 string
	noHeader                     bool
	maxAge                       time.Duration
	hours                        int // 0: the plan decides
}

// bulkFields are the names of the parts that are not the file.
var bulkFields = []string{"callback_url", "name", "email_column", "has_header", "max_age", "max_hours", "callback_content", "callback_input"}

func newBulkForm(body io.Reader, contentType string) *bulkForm {
	f := &bulkForm{bulkOptions: bulkOptions{callbackContent: "full", maxAge: coordinator.DefaultMaxAge}}
	f.form = newForm(body, contentType, bulkFields, f.set)
	return f
}

// set takes one part.
func (f *bulkForm) set(name, s string) error {
	switch name {
	case "callback_url":
		f.callbackURL = strings.TrimSpace(s)
	case "name":
		if f.name = s; len(s) > maxName {
			return refuse(unacceptable, "name must have at most %d bytes.", maxName)
		}
	case "email_column":
		f.column = s
	case "has_header":
		header, err := readFlag(name, s)
		f.noHeader = !header
		return err
	case "max_age":
		seconds, err := readNumber(name, s, 0, maxMaxAge)
		f.maxAge = time.Duration(seconds) * time.Second
		return err
	case "max_hours":
		if f.hours = 0; s == "auto" {
			return nil
		}
		hours, err := readNumber(name, s, 1, coordinator.MaxHours)
		if err != nil {
			return refuse(unacceptable, "max_hours must be auto, or a whole number from 1 to %d.", coordinator.MaxHours)
		}
		f.hours = int(hours)
	case "callback_content":
		if f.callbackContent = s; s != "full" && s != "auto" && s != "link" {
			return refuse(unacceptable, "callback_content must be full, auto or link.")
		}
	case "callback_input":
		input, err := readFlag(name, s)
		f.callbackInput = input
		return err
	}
	return nil
}
