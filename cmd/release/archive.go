package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive.
type file struct {
	name   string // in the archive
	source string
	mode   int64
}

// writeArchive writes files into the folder of a .zip or .tar.gz archive, in the order of their names. Times and owners are
// fixed, so that equal files give an equal archive.
func writeArchive(target, folder string, files []file) error {
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	out, err := os.Create(target)
	if err != nil {
		return fmt.Errorf("create the archive: %w", err)
	}
	write := writeTar
	if strings.HasSuffix(target, ".zip") {
		write = writeZip
	}
	if err := errors.Join(write(out, folder, files), out.Close()); err != nil {
		return fmt.Errorf("write %s: %w", target, err)
	}
	return nil
}

// modified is the time of every file.
func modified() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func writeTar(out io.Writer, folder string, files []file) error {
	packed := gzip.NewWriter(out)
	archive := tar.NewWriter(packed)
	for _, f := range files {
		text, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Name: path.Join(folder, f.name), Mode: f.mode, Size: int64(len(text)), ModTime: modified(), Typeflag: tar.TypeReg,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

func writeZip(out io.Writer, folder string, files []file) error {
	archive := zip.NewWriter(out)
	for _, f := range files {
		text, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: modified()}
		header.SetMode(os.FileMode(f.mode)) //nolint:gosec // permissions
		w, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return archive.Close()
}
