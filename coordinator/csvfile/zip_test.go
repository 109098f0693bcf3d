package csvfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/flate"
	"github.com/stretchr/testify/require"
)

// zipped is one entry of an archive that a test writes.
type zipped struct {
	name, text string
	stored     bool // not deflated
	streamed   bool // sizes and checksum follow the data
	unsigned   bool // the descriptor has no signature
	long       bool // sizes of 8 bytes (zip64)
	bare       bool // streamed, and yet without a descriptor
	flags      uint16
	method     uint16 // instead of the right one
}

// writeZip writes an archive by APPNOTE.TXT. The directory at its end has no entries: it is not read.
func writeZip(t testing.TB, entries ...zipped) string {
	t.Helper()
	var b bytes.Buffer
	le := binary.LittleEndian
	for _, e := range entries {
		packed, method, flags := []byte(e.text), e.method, e.flags
		if !e.stored {
			var p bytes.Buffer
			w, err := flate.NewWriter(&p, 6)
			require.NoError(t, err)
			_, err = io.WriteString(w, e.text)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			packed, method = p.Bytes(), max(e.method, zipDeflated)
		}
		sum, size, whole := crc32.ChecksumIEEE([]byte(e.text)), uint64(len(packed)), uint64(len(e.text))
		var extra, descriptor []byte
		shownSum, shownSize, shownWhole := sum, uint32(size), uint32(whole)
		if e.long {
			extra = le.AppendUint16(le.AppendUint16(nil, 1), 16)
			extra = le.AppendUint64(le.AppendUint64(extra, whole), size)
			shownSize, shownWhole = zipUnknown, zipUnknown
		}
		if e.streamed {
			flags |= zipStreamed
			shownSum, shownSize, shownWhole = 0, 0, 0
			if !e.unsigned {
				descriptor = append(descriptor, zipDescriptor...)
			}
			descriptor = le.AppendUint32(descriptor, sum)
			if e.long {
				extra = nil
				descriptor = le.AppendUint64(le.AppendUint64(descriptor, size), whole)
			} else {
				descriptor = le.AppendUint32(le.AppendUint32(descriptor, uint32(size)), uint32(whole))
			}
			if e.bare {
				descriptor = nil
			}
		}
		h := append([]byte{}, zipLocal...)
		for _, n := range []uint16{20, flags, method, 0, 0} {
			h = le.AppendUint16(h, n)
		}
		for _, n := range []uint32{shownSum, shownSize, shownWhole} {
			h = le.AppendUint32(h, n)
		}
		h = le.AppendUint16(le.AppendUint16(h, uint16(len(e.name))), uint16(len(extra)))
		for _, part := range [][]byte{h, []byte(e.name), extra, packed, descriptor} {
			b.Write(part)
		}
	}
	b.WriteString("PK\x05\x06" + strings.Repeat("\x00", 18))
	return b.String()
}

const zipList = "email,n\na@x.org,1\nb@x.org,2\n"

// TestArchivesOfEachSystem reads archives as the systems write them.
func TestArchivesOfEachSystem(t *testing.T) {
	list := zipped{name: "list.csv", text: zipList}
	streamed := zipped{name: "lists/list.csv", text: zipList, streamed: true}
	fork := strings.Repeat("Mac OS X        ", 4000)
	for name, entries := range map[string][]zipped{
		"macOS, one file": {{name: "list.csv", text: zipList, streamed: true},
			{name: "__MACOSX/._list.csv", text: fork, streamed: true}},
		"macOS, a folder": {{name: "lists/", stored: true},
			{name: "lists/.DS_Store", text: fork, streamed: true},
			{name: "__MACOSX/lists/._.DS_Store", text: "x", streamed: true}, streamed,
			{name: "__MACOSX/lists/._list.csv", text: fork, streamed: true},
			{name: "__MACOSX/._lists", text: "y", streamed: true}},
		"ditto, attributes stored": {{name: "._list.csv", text: fork, stored: true}, list},
		"Info-ZIP, a folder": {{name: "a/", stored: true}, {name: "a/b/", stored: true},
			{name: "a/b/list.csv", text: zipList, stored: true}},
		"Info-ZIP, to a pipe": {{name: "-", text: zipList, streamed: true, long: true}},
		"Explorer of Windows": {list, {name: "desktop.ini", text: "[.ShellClassInfo]", stored: true},
			{name: `pictures\Thumbs.db`, text: fork}},
		"backslashes": {{name: `lists\`, stored: true}, {name: `lists\list.csv`, text: zipList}},
		"7-Zip":       {{name: "lists", text: zipList}},
		"zip64":       {{name: "a/", stored: true}, {name: "list.csv", text: zipList, long: true}},
		"zip64, stored": {{name: "list.csv", text: zipList, long: true, stored: true},
			{name: "__MACOSX/._list.csv", text: fork, long: true, stored: true}},
		"a descriptor without signature": {{name: "list.csv", text: zipList, streamed: true, unsigned: true}},
		"the same of zip64": {{name: "list.csv", text: zipList, streamed: true, unsigned: true, long: true},
			{name: "__MACOSX/._list.csv", text: "x"}},
		"Java, a folder with data":     {{name: "lists/", streamed: true}, streamed},
		"a streamed folder, bare":      {{name: "lists/", stored: true, streamed: true, bare: true}, streamed},
		"a streamed folder, described": {{name: "lists/", stored: true, streamed: true}, streamed},
	} {
		archive := writeZip(t, entries...)
		for _, src := range []io.Reader{strings.NewReader(archive), iotest.OneByteReader(strings.NewReader(archive))} {
			got, err := read(src, Options{})
			emails, out := got.emails, got.out
			require.NoError(t, err, name)
			require.Equal(t, []string{"a@x.org", "b@x.org"}, emails, name)
			require.Equal(t, "email,n,ours\na@x.org,1,x\nb@x.org,2,x\n", out, name)
		}
	}
}

// TestArchiveOfGo: the standard library's writer agrees with writeZip about headers, descriptors and directory.
func TestArchiveOfGo(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"lists/", "lists/.DS_Store", "lists/list.csv", "__MACOSX/lists/._list.csv"} {
		w, err := z.Create(name)
		require.NoError(t, err)
		if !strings.HasSuffix(name, "/") {
			_, err = io.WriteString(w, zipList)
			require.NoError(t, err)
		}
	}
	require.NoError(t, z.Close())
	got, err := read(&b, Options{})
	emails := got.emails
	require.NoError(t, err)
	require.Equal(t, []string{"a@x.org", "b@x.org"}, emails)
}

func TestArchivesThatAreRefused(t *testing.T) {
	list := zipped{name: "list.csv", text: zipList}
	sheet := zipped{name: "xl/worksheets/sheet1.xml", text: "<worksheet/>"}
	bomb := zipped{name: "__MACOSX/._a", text: strings.Repeat("\x00", maxZipSkipped/2+1)}
	for says, archive := range map[string]string{
		"is a spreadsheet, not a CSV file: open it, save it as CSV (in Excel: Save As, CSV UTF-8)": writeZip(t,
			zipped{name: "[Content_Types].xml", text: "<Types/>"}, sheet),
		"is a spreadsheet, not a CSV": writeZip(t, zipped{name: "docProps/app.xml", text: "<x/>"},
			sheet),
		"a spreadsheet, not": writeZip(t,
			zipped{name: "mimetype", text: "application/vnd.oasis.opendocument.spreadsheet", stored: true}),
		"spreadsheet": writeZip(t,
			zipped{name: "Index/Document.iwa", text: "x", stored: true}),
		`more than one file: "list.csv", "b\u202e.csv"`: writeZip(t, list, zipped{name: "b\u202e.csv", text: zipList}),
		`more than one file: "list.csv", "readme.txt"`: writeZip(t, list,
			zipped{name: "__MACOSX/._list.csv", text: "x"}, zipped{name: "readme.txt", text: "x"}),
		"holds no file": writeZip(t, zipped{name: "a/", stored: true},
			zipped{name: "__MACOSX/._a", text: "x"}),
		"a zip archive without a file": writeZip(t),
		"a zip archive inside another": writeZip(t, zipped{name: "a.zip", text: writeZip(t, list)}),
		"is encrypted": writeZip(t,
			zipped{name: "list.csv", text: zipList, flags: zipEncrypted}),
		"Deflate64": writeZip(t,
			zipped{name: "list.csv", text: zipList, method: 9}),
		"method 93": writeZip(t,
			zipped{name: "list.csv", text: zipList, method: 93}),
		"storing data of unknown length": writeZip(t,
			zipped{name: "list.csv", text: zipList, stored: true, streamed: true}),
		"more than 64 MiB next to its list":                    writeZip(t, bomb, bomb, list),
		"more than 64 MiB next to its list; put only the CSV ": writeZip(t, list, bomb, bomb),
		"checksum differs": strings.Replace(writeZip(t,
			zipped{name: "list.csv", text: zipList, stored: true}), "b@x.org", "c@x.org", 1),
	} {
		_, err := read(strings.NewReader(archive), Options{})
		require.ErrorContains(t, err, says)
		var refusal *Error
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, Unacceptable, refusal.Kind)
	}
}

func TestFilesOfOtherKindsAreNamed(t *testing.T) {
	for start, says := range map[string]string{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "Excel workbook of the older format",
		"%PDF-1.7\n": "a PDF document", "{\\rtf1\\ansi": "rich text",
		"BEGIN:VCARD\r\nVERSION:3.0": "vCard", "7z\xbc\xaf\x27\x1c\x00\x04": "7z archive",
		"Rar!\x1a\x07\x01\x00": "RAR",
		"\xfd7zXZ\x00":         "xz file", "BZh91AY&SY": "bzip2"} {
		for _, how := range []string{"plain", "gzip", "zip"} {
			_, err := read(strings.NewReader(pack(t, how, start+strings.Repeat("x", 100))), Options{})
			require.ErrorContains(t, err, says, how)
		}
	}
}

// FuzzZip: no archive makes the package panic, and what is read of one that the standard library reads is the file in
// it.
func FuzzZip(f *testing.F) {
	f.Add([]byte(writeZip(f, zipped{name: "a/", stored: true}, zipped{name: "list.csv", text: zipList, streamed: true},
		zipped{name: "__MACOSX/._list.csv", text: "x"})))
	f.Add([]byte(writeZip(f, zipped{name: "list.csv", text: zipList, stored: true, long: true})))
	f.Add([]byte(pack(f, "zip", zipList)))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := read(bytes.NewReader(in), Options{})
		if err != nil || !bytes.HasPrefix(in, zipLocal) {
			return
		}
		z, err := zip.NewReader(bytes.NewReader(in), int64(len(in)))
		if err != nil || len(z.File) != 1 || z.File[0].Mode().IsDir() {
			return
		}
		if at, err := z.File[0].DataOffset(); err != nil || at != int64(zipLocalBytes+len(z.File[0].Name)) {
			return // the directory speaks of another place
		}
		file, err := z.File[0].Open()
		if err != nil {
			return
		}
		text, err := io.ReadAll(file)
		if err != nil {
			return
		}
		want, err := read(bytes.NewReader(text), Options{})
		require.NoError(t, err)
		require.Equal(t, want.emails, got.emails)
	})
}
