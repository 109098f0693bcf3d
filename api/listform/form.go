package listform

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

// maxURL bounds source_url, in bytes.
const maxURL = 2048

// MaxAge is the greatest max_age, in seconds.
const MaxAge = 10 * 365 * 86400

// Form is the form of an upload, whose parts are read one after another.
type Form struct {
	*httpd.Form
	Options
	SourceURL string // of the file, if it is not a part; it may contain a secret
	UploadID  string // of a resumable upload, if it has the file
}

// Options are the parts of an upload that are not the file.
type Options struct {
	CallbackURL, CallbackContent string
	CallbackInput, Details       bool
	CallbackHeaders              map[string]string
	ResultsTo                    string // where the results are delivered; empty: nowhere
	Name                         string
	Reading                      csvfile.Options // how the file is read
	MaxAge                       time.Duration
	MaxHours                     int  // 0: the plan decides
	Hold                         bool // the job waits to be started
}

// ReadingFields are the names of the parts that change how the file is read.
var ReadingFields = []string{"email_column", "has_header", "delimiter", "column_check"}

// Default are the options of an upload that names none.
func Default() Options {
	return Options{CallbackContent: "full", MaxAge: coordinator.DefaultMaxAge}
}

// New makes the form of a request.
func New(c *httpd.Call) *Form {
	f := &Form{Options: Default()}
	f.Form = c.Form(f.set)
	return f
}

// ReadingKnown reports whether no part after the file can change how it is read.
func (f *Form) ReadingKnown() bool {
	return !slices.ContainsFunc(ReadingFields, func(name string) bool { return !f.Has(name) })
}

// CheckSources refuses a form with more than one list.
func (f *Form) CheckSources() error {
	n := 0
	for _, name := range []string{"file", "source_url", "upload_id"} {
		if f.Has(name) {
			n++
		}
	}
	if n > 1 {
		return httpd.Refuse(httpd.Unacceptable, "file, source_url and upload_id are alternatives: send one of them.")
	}
	return nil
}

// set takes one part.
func (f *Form) set(name, s string) error {
	switch name {
	case "callback_url":
		f.CallbackURL = strings.TrimSpace(s)
		if f.CallbackURL == "" {
			return httpd.Refuse(httpd.Unacceptable, "callback_url is empty: send a URL, or leave the part out.")
		}
	case "source_url":
		f.SourceURL = strings.TrimSpace(s)
		if f.SourceURL == "" {
			return httpd.Refuse(httpd.Unacceptable, "source_url is empty: send a URL, or leave the part out.")
		}
		return httpd.CheckShown(name, f.SourceURL, maxURL) // refusals show its host
	case "results_to":
		f.ResultsTo = strings.TrimSpace(s)
		if f.ResultsTo == "" {
			return httpd.Refuse(httpd.Unacceptable, "results_to is empty: send s3://bucket/prefix, or leave the part out.")
		}
	case "upload_id":
		f.UploadID = s
	case "name":
		f.Name = s
		return httpd.CheckShown(name, s, maxName)
	case "email_column":
		f.Reading.Column = s
	case "has_header":
		header, err := httpd.ParseFlag(name, s)
		f.Reading.NoHeader = !header
		return err
	case "delimiter":
		if s == "tab" {
			s = "\t"
		}
		if len(s) != 1 || !strings.Contains(csvfile.Delimiters, s) {
			return httpd.Refuse(httpd.Unacceptable, "delimiter must be a comma, a semicolon, a pipe, or tab.")
		}
		f.Reading.Delimiter = s[0]
	case "column_check":
		check, err := httpd.ParseFlag(name, s)
		f.Reading.AnyColumn = !check
		return err
	case "max_age":
		seconds, err := httpd.ParseNumber(name, s, 0, MaxAge)
		f.MaxAge = time.Duration(seconds) * time.Second
		return err
	case "max_hours":
		f.MaxHours = 0
		if s == "auto" {
			return nil
		}
		hours, err := httpd.ParseNumber(name, s, 1, ingest.MaxHours)
		if err != nil {
			return httpd.Refuse(httpd.Unacceptable, "max_hours must be auto, or a whole number from 1 to %d.",
				ingest.MaxHours)
		}
		f.MaxHours = int(hours)
	case "start":
		start, err := httpd.ParseFlag(name, s)
		f.Hold = !start
		return err
	case "details":
		details, err := httpd.ParseFlag(name, s)
		f.Details = details
		return err
	case "callback_content":
		f.CallbackContent = s
		if s != "full" && s != "auto" && s != "link" {
			return httpd.Refuse(httpd.Unacceptable, "callback_content must be full, auto or link.")
		}
	case "callback_input":
		input, err := httpd.ParseFlag(name, s)
		f.CallbackInput = input
		return err
	case "callback_headers":
		headers, err := callback.ParseHeaders(s)
		f.CallbackHeaders = headers
		return err
	}
	return nil
}

// CleanFilename is the last element of a file name as a browser sends it, made fit to be shown: U+202E lets exe.csv
// pass for vsc.exe.
func CleanFilename(s string) string {
	if i := strings.LastIndexByte(s, '\\'); i >= 0 {
		s = s[i+1:]
	}
	s = path.Base(s)
	if s == "." || s == "/" {
		return ""
	}
	return shownname.Clean(s, maxName)
}
