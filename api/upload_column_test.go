package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWrongColumnIsRefusedAndCostsNothing: the refusal names the column, its cells and the ways on, whether the options
// come before the file or after it.
func TestWrongColumnIsRefusedAndCostsNothing(t *testing.T) {
	w := newTestServer(t, nil)
	file := part{"file", "l.csv", "Name;E-Mail;City\nAnn;ann@shop.test;Bonn\nBo;bo@shop.test;Graz\nCy;cy@shop.test;Wien\n"}
	column := part{"email_column", "", "1"}
	for _, parts := range [][]part{{column, file}, {file, column}, {part{"column_check", "", "true"}, column, file}} {
		r := w.upload(w.key, nil, parts...)
		require.Equal(t, 422, r.status)
		require.Equal(t, `file: none of the first 3 cells of the column "Name" (1) looks like an e-mail address (delimiter ';'), for example "Ann", "Bo", "Cy": `+
			`name another column with email_column, or verify this one with column_check=false`, r.detail(t))
	}
	require.Empty(t, w.get("/v1/verify/bulk", w.key).json(t)["jobs"])
	require.Empty(t, w.get("/v1/verify/bulk?status=failed", w.key).json(t)["jobs"])
	require.EqualValues(t, initialCredits, w.credits().Balance)
	anyway := part{"column_check", "", "false"}
	for _, parts := range [][]part{{anyway, column, file}, {file, column, anyway}, {column, file, anyway}} {
		r := w.upload(w.testKey, nil, parts...)
		require.Equal(t, 202, r.status, "%s", r.body)
		require.Equal(t, "Name", r.json(t)["email_column"])
	}
	require.Equal(t, 422, w.upload(w.key, nil, part{"column_check", "", "no"}, file).status)
}

// TestDelimiterOfAnUpload: a delimiter that is named decides how the file is split, before the file or after it.
func TestDelimiterOfAnUpload(t *testing.T) {
	w := newTestServer(t, nil)
	file := part{"file", "l.csv", "Muster, Ann;ann@shop.test\nMuster, Bo;bo@shop.test\nMuster, Cy;cy@shop.test\n"}
	options := []part{{"email_column", "", "2"}, {"has_header", "", "false"}, {"delimiter", "", ";"}}
	for _, parts := range [][]part{append([]part{file}, options...), append(options, file)} {
		job := w.upload(w.testKey, nil, parts...).json(t)
		require.Equal(t, ";", job["delimiter"])
		require.EqualValues(t, 3, job["unique_addresses"])
	}
	require.Equal(t, 422, w.upload(w.testKey, nil, file, options[0], options[1]).status,
		"a comma would split it before the address")
	tabs := part{"file", "l.tsv", "name\tmail, of work\nAnn\tann@shop.test\n"}
	for _, name := range []string{"tab", "\t"} {
		job := w.upload(w.testKey, nil, part{"delimiter", "", name}, part{"email_column", "", "2"}, tabs).json(t)
		require.Equal(t, "\t", job["delimiter"])
	}
	for _, name := range []string{"", ":", "comma", ",,", "é"} {
		r := w.upload(w.testKey, nil, part{"delimiter", "", name}, tabs)
		require.Equal(t, 422, r.status, name)
		require.Contains(t, r.detail(t), "delimiter must be")
	}
}
