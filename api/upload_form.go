package api

import (
	"path"
	"slices"
	"strings"
	"time"

	"probity/api/httpd"
	"probity/coordinator"
	"probity/coordinator/callback"
	"probity/coordinator/csvfile"
	"probity/coordinator/ingest"
	"probity/internal/shownname"
)

// maxName bounds the name of a job, in bytes.
const maxName = 200

// bulkForm is the form of an upload, whose parts are read one after another, in any order.
type bulkForm struct {
	*httpd.Form
	bulkOptions
}

// bulkOptions are the parts of an upload that are not the file.
type bulkOptions struct {
	callbackURL, callbackContent string
	callbackInput                bool
	callbackHeaders              map[string]string
	name                         string
	reading                      csvfile.Options // how the file is read
	maxAge                       time.Duration
	hours                        int  // 0: the plan decides
	hold                         bool // the job waits to be started
}

// readingFields are the names of the parts that change how the file is read.
var readingFields = []string{"email_column", "has_header", "delimiter", "column_check"}

// defaultBulkOptions are the options of an upload that names none.
func defaultBulkOptions() bulkOptions {
	return bulkOptions{callbackContent: "full", maxAge: coordinator.DefaultMaxAge}
}

func newBulkForm(c *call) *bulkForm {
	f := &bulkForm{bulkOptions: defaultBulkOptions()}
	f.Form = c.Form(f.set)
	return f
}

// readingKnown reports whether no part after the file can change how it is read.
func (f *bulkForm) readingKnown() bool {
	return !slices.ContainsFunc(readingFields, func(name string) bool { return !f.Has(name) })
}

// set takes one part.
func (f *bulkForm) set(name, s string) error {
	switch name {
	case "callback_url":
		f.callbackURL = strings.TrimSpace(s)
		if f.callbackURL == "" {
			return httpd.Refuse(httpd.Unacceptable, "callback_url is empty: send a URL, or leave the part out.")
		}
	case "name":
		f.name = s
		return httpd.CheckShown(name, s, maxName)
	case "email_column":
		f.reading.Column = s
	case "has_header":
		header, err := httpd.ParseFlag(name, s)
		f.reading.NoHeader = !header
		return err
	case "delimiter":
		if s == "tab" {
			s = "\t"
		}
		if len(s) != 1 || !strings.Contains(csvfile.Delimiters, s) {
			return httpd.Refuse(httpd.Unacceptable, "delimiter must be a comma, a semicolon, a pipe, or tab.")
		}
		f.reading.Delimiter = s[0]
	case "column_check":
		check, err := httpd.ParseFlag(name, s)
		f.reading.AnyColumn = !check
		return err
	case "max_age":
		seconds, err := httpd.ParseNumber(name, s, 0, maxMaxAge)
		f.maxAge = time.Duration(seconds) * time.Second
		return err
	case "max_hours":
		f.hours = 0
		if s == "auto" {
			return nil
		}
		hours, err := httpd.ParseNumber(name, s, 1, ingest.MaxHours)
		if err != nil {
			return httpd.Refuse(httpd.Unacceptable, "max_hours must be auto, or a whole number from 1 to %d.", ingest.MaxHours)
		}
		f.hours = int(hours)
	case "start":
		start, err := httpd.ParseFlag(name, s)
		f.hold = !start
		return err
	case "callback_content":
		f.callbackContent = s
		if s != "full" && s != "auto" && s != "link" {
			return httpd.Refuse(httpd.Unacceptable, "callback_content must be full, auto or link.")
		}
	case "callback_input":
		input, err := httpd.ParseFlag(name, s)
		f.callbackInput = input
		return err
	case "callback_headers":
		headers, err := callback.ParseHeaders(s)
		f.callbackHeaders = headers
		return err
	}
	return nil
}

// cleanFilename is the last element of a file name as a browser sends it, made fit to be shown: U+202E lets exe.csv pass for
// vsc.exe.
func cleanFilename(s string) string {
	if i := strings.LastIndexByte(s, '\\'); i >= 0 {
		s = s[i+1:]
	}
	s = path.Base(s)
	if s == "." || s == "/" {
		return ""
	}
	return shownname.Clean(s, maxName)
}
