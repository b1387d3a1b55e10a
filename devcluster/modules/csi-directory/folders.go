package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// folders keeps what there is as files, so that a driver that starts again knows it all:
// KIND/ID/data, KIND/ID/size and, of a snapshot, KIND/ID/source.
type folders struct {
	base string
	// Sidecars ask again while a copy goes on; one act at a time is fast enough here.
	one sync.Mutex
}

const (
	volumes    = "volumes"
	snapshots  = "snapshots"
	unfinished = "unfinished"
	data       = "data"
	sizeFile   = "size"
	sourceFile = "source"
)

func openFolders(base string) (*folders, error) {
	if err := os.RemoveAll(filepath.Join(base, unfinished)); err != nil {
		return nil, err
	}
	for _, kind := range []string{volumes, snapshots, unfinished} {
		if err := os.MkdirAll(filepath.Join(base, kind), 0o711); err != nil {
			return nil, err
		}
	}
	return &folders{base: base}, nil
}

// place refuses what is no plain name: an ID comes back from objects that people may change.
func (f *folders) place(kind, id string) (string, error) {
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/\x00") {
		return "", status.Errorf(codes.InvalidArgument, "%q is no plain name", id)
	}
	return filepath.Join(f.base, kind, id), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// make makes a folder once: empty, or as a copy of another. It has its name only when it is whole.
func (f *folders) make(kind, id, from string, notes map[string]string) error {
	final, err := f.place(kind, id)
	if err != nil || exists(final) {
		return err
	}
	fresh := filepath.Join(f.base, unfinished, id)
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if from == "" {
		err = os.MkdirAll(filepath.Join(fresh, data), 0o777)
	} else {
		err = copied(from, fresh)
	}
	if err != nil {
		return err
	}
	for note, text := range notes {
		if err := os.WriteFile(filepath.Join(fresh, note), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.Rename(fresh, final)
}

// copied keeps owners, times and holes, and takes no space where the file system shares blocks.
func copied(from, to string) error {
	said, err := exec.Command("cp", "-a", "--reflink=auto", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying: %w: %s", err, said)
	}
	return nil
}

func (f *folders) remove(kind, id string) error {
	path, err := f.place(kind, id)
	if err != nil || !exists(path) {
		return err
	}
	gone := filepath.Join(f.base, unfinished, fmt.Sprintf("%s-%d", id, time.Now().UnixNano()))
	if err := os.Rename(path, gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// holds refuses what no folder here could ever hold: more than the whole disk.
func (f *folders) holds(wanted int64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(f.base, &disk); err != nil {
		return err
	}
	if whole := int64(disk.Blocks) * int64(disk.Bsize); wanted > whole {
		return status.Errorf(codes.OutOfRange, "the whole disk holds %d bytes, not %d", whole, wanted)
	}
	return nil
}

// resized is seen as a whole or not at all: a reader never finds half a number.
func resized(path string, wanted int64) error {
	fresh := filepath.Join(path, sizeFile+".new")
	if err := os.WriteFile(fresh, []byte(strconv.FormatInt(wanted, 10)), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(path, sizeFile))
}

func size(path string) int64 {
	text, err := os.ReadFile(filepath.Join(path, sizeFile))
	if err != nil {
		return 0
	}
	found, _ := strconv.ParseInt(string(text), 10, 64)
	return found
}
