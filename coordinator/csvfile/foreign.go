package csvfile

import "bytes"

// foreignFiles are files that are no text, or no list, by their first bytes.
var foreignFiles = []struct{ start, what, advice string }{
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook of the older format",
		"save it as CSV (in Excel: Save As, CSV UTF-8), and send that file"},
	{"%PDF-", "a PDF document", "export the list as CSV from the program that made it, and send that file"},
	{"{\\rtf", "a rich text document", "save it as plain text or CSV, and send that file"},
	{"BEGIN:VCARD", "a file of contacts (vCard)", "export the contacts as CSV, and send that file"},
	{"PK\x05\x06", "a zip archive without a file", "put one CSV file into it"},
	{"PK\x03\x04", "a zip archive inside another", "unpack it, and send the CSV file"},
	{"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it, and send the CSV file, as gzip, zstd or zip if you like"},
	{"Rar!\x1a\x07", "a RAR archive", "unpack it, and send the CSV file, as gzip, zstd or zip if you like"},
	{"\xfd7zXZ\x00", "an xz file", "unpack it, and send the CSV file, as gzip, zstd or zip if you like"},
	{"BZh9", "a bzip2 file", "unpack it, and send the CSV file, as gzip, zstd or zip if you like"},
}

// longestStart is at least the length of each start in foreignFiles.
const longestStart = 16

// checkForeign refuses a file that is not a list by its first bytes.
func checkForeign(head []byte) error {
	for _, f := range foreignFiles {
		if bytes.HasPrefix(head, []byte(f.start)) {
			return refuse(Unacceptable, 0, "the file is %s, not a CSV file: %s", f.what, f.advice)
		}
	}
	return nil
}
