package event

import (
	"fmt"
	"strconv"
	"strings"
)

// maxPacked bounds how many names a packed text may claim.
const maxPacked = 1 << 16

// PackNames writes the names of a frame as one short text, runs as "text*12": "claim,text*12,done". Names hold neither
// commas nor stars.
func PackNames(names []Name) string {
	var packed strings.Builder
	for i := 0; i < len(names); {
		run := i + 1
		for run < len(names) && names[run] == names[i] {
			run++
		}
		if i > 0 {
			packed.WriteByte(',')
		}
		packed.WriteString(string(names[i]))
		if run-i > 1 {
			packed.WriteByte('*')
			packed.WriteString(strconv.Itoa(run - i))
		}
		i = run
	}
	return packed.String()
}

// UnpackNames reads what [PackNames] wrote of at least one name and at most 65536.
func UnpackNames(packed string) ([]Name, error) {
	names := make([]Name, 0, 1)
	for run := range strings.SplitSeq(packed, ",") {
		name, times, repeated := strings.Cut(run, "*")
		count := 1
		if repeated {
			var err error
			if count, err = strconv.Atoi(times); err != nil || count < 2 {
				return nil, fmt.Errorf("unpack names: run %.40q", run)
			}
		}
		if name == "" || count > maxPacked-len(names) {
			return nil, fmt.Errorf("unpack names: run %.40q", run)
		}
		for range count {
			names = append(names, Name(name))
		}
	}
	return names, nil
}
