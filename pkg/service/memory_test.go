package service

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestTheMemoryOfACgroup(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files map[string]string
		want  int64
	}{
		"no cgroups": {nil, math.MaxInt64},
		"version 2, a container": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 512 << 20},
		"version 2, the host's path in a container": {map[string]string{
			"proc/self/cgroup": "0::/kubepods/pod1/c1\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 512 << 20},
		"version 2, the least of several": {map[string]string{
			"proc/self/cgroup":                                      "0::/system.slice/gateway.service\n",
			"sys/fs/cgroup/system.slice/memory.max":                 "268435456\n",
			"sys/fs/cgroup/system.slice/gateway.service/memory.max": "max\n",
		}, 256 << 20},
		"version 1": {map[string]string{
			"proc/self/cgroup": "7:cpu,cpuacct:/docker/x\n5:memory:/docker/x\n",
			"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "134217728\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          "9223372036854771712\n",
		}, 128 << 20},
		"no limit": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, math.MaxInt64},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			system := fstest.MapFS{}
			for file, text := range test.files {
				system[file] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := cgroupMemory(system); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
