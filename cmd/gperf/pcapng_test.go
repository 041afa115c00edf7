package main

import (
	bin "encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// udp4 is an IPv4 packet with a UDP datagram of so many bytes.
func udp4(dport uint16, payload int) []byte {
	be := bin.BigEndian
	b := []byte{0x45, 0}
	b = be.AppendUint16(b, uint16(28+payload))
	b = append(b, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 7, 10, 0, 0, 9)
	b = be.AppendUint16(be.AppendUint16(b, 53), dport)
	b = be.AppendUint16(b, uint16(8+payload))
	return append(append(b, 0, 0), make([]byte, payload)...)
}

// ethernet is a packet with an Ethernet header, and a VLAN tag if vlan is not 0.
func ethernet(ip []byte, vlan uint16) []byte {
	b := []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 7}
	if vlan != 0 {
		b = bin.BigEndian.AppendUint16(append(b, 0x81, 0), vlan)
	}
	return append(append(b, 8, 0), ip...)
}

// dissected is a packet as tshark reads it: the fields of readFields, and the bytes in hexadecimal.
type dissected struct {
	fields []string
	bytes  string
}

var readFields = []string{"frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_name",
	"frame.interface_description", "frame.packet_flags_direction", "ip.src", "udp.dstport", "frame.comment"}

// tshark reads the packets of a file.
func tshark(t *testing.T, file string) (l []dissected) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is missing")
	}
	out, err := exec.Command("tshark", "-r", file, "-T", "json", "-x").Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	var raw []struct {
		Source struct {
			Layers struct {
				Bytes []any `json:"frame_raw"`
			}
		} `json:"_source"`
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		t.Fatal(err)
	}
	args := []string{"-r", file, "-T", "fields", "-E", "separator=|", "-E", "aggregator=;"}
	for _, f := range readFields {
		args = append(args, "-e", f)
	}
	if out, err = exec.Command("tshark", args...).Output(); err != nil {
		t.Fatalf("tshark: %v", err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(raw) {
		t.Fatalf("%d packets, %d lines", len(raw), len(lines))
	}
	for i, line := range lines {
		l = append(l, dissected{strings.Split(line, "|"), fmt.Sprint(raw[i].Source.Layers.Bytes[0])})
	}
	return l
}

// TestPcapng compares the packets that tshark reads with the samples.
func TestPcapng(t *testing.T) {
	const netns = 4026531840
	rec := packetRecording{events: allPacketEvents, clock: true}
	add := func(event string, b []byte, more fields) {
		v := at(dns, 0x100, fields{"bytes": b})
		for name, value := range more {
			v[name] = value
		}
		rec.samples = append(rec.samples, packetSample{event, uint64(sec + 1001*len(rec.samples)), v})
	}
	long := udp4(9, 100)
	add("net:netif_receive_skb", ethernet(udp4(1, 10), 0), fields{"len": 38})
	add("net:net_dev_xmit", ethernet(udp4(2, 10), 0), fields{"len": 52})
	add("packet:hop", ethernet(udp4(3, 10), 5), fields{"len": 56, "func": devXmit, "dev": "veth0", "netns": 4026532000})
	add("packet:hop", udp4(4, 10), fields{"len": 10, "func": ipRcv, "bytes_at": 1, "packet": 3})
	add("packet:hop", nil, nil) // contains no bytes
	add("skb:kfree_skb", ethernet(long, 0)[:96], fields{"len": len(long) - 28, "wire_len": 142,
		"location": nftDoChain + 0x3e, "reason": 12, "dev": ""})
	add("skb:consume_skb", ethernet(udp4(6, 0), 0), fields{"len": 3}) // a length that is too short
	const stack = ";kernel: nft_do_chain < ip_rcv"
	eth0 := []string{"eth0", fmt.Sprint("network namespace ", netns)}
	want := []struct {
		n              int // of the sample
		length         int
		device         []string
		direction      string
		dport, comment string
	}{
		{0, 52, eth0, "0x00000001", "1", "net:netif_receive_skb, nginx/812"},
		{1, 52, eth0, "0x00000002", "2", "net:net_dev_xmit, nginx/812"},
		{2, 56, []string{"veth0", "network namespace 4026532000"}, "", "3", "dev_hard_start_xmit, nginx/812"},
		{3, 38, eth0, "0x00000001", "4", "ip_rcv, packet 3, nginx/812"},
		{5, 142, []string{"no device", eth0[1]}, "", "9",
			"skb:kfree_skb DROPPED at nft_do_chain+0x3e (NETFILTER_DROP), nginx/812"},
		{6, 42, eth0, "", "6", "skb:consume_skb CONSUMED, nginx/812"},
	}
	file := filepath.Join(t.TempDir(), "drops.pcapng")
	names := craftedKallsyms(t)
	mustGperf(t, "script", "--format", "pcapng", "-o", file, "-i", rec.save(t), "--kallsyms", names)
	got := tshark(t, file)
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d: %v", len(got), len(want), got)
	}
	for i, w := range want {
		s := rec.samples[w.n]
		b := s.values["bytes"].([]byte)
		ns := craftedWall + s.time
		at := fmt.Sprintf("%d.%09d", ns/sec, ns%sec)
		fields := append([]string{at, fmt.Sprint(w.length), fmt.Sprint(len(b))}, w.device...)
		fields = append(fields, w.direction, "10.0.0.7", w.dport, w.comment+stack)
		if !slices.Equal(got[i].fields, fields) || got[i].bytes != hex.EncodeToString(b) {
			t.Errorf("packet %d:\n got %q %s\nwant %q %x", i, got[i].fields, got[i].bytes, fields, b)
		}
	}
	t.Run("time filter", func(t *testing.T) {
		rec.clock = false
		mustGperf(t, "script", "--format", "pcapng", "-o", file, "-i", rec.save(t), "--kallsyms", names,
			"--time", "0,1.000001")
		if got := tshark(t, file); len(got) != 1 || got[0].fields[0] != "1.000000000" {
			t.Errorf("%v, want the first packet at 1 s", got)
		}
	})
}

// TestPcapngErrors: recordings without bytes, and wrong use.
func TestPcapngErrors(t *testing.T) {
	kfree := []packetSample{{"skb:kfree_skb", sec, at(dns, 1, nil)}}
	without := packetRecording{events: []string{"skb:kfree_skb"}, samples: kfree, without: []string{"bytes"}}
	empty := packetRecording{events: []string{"skb:kfree_skb"}, samples: kfree}
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no field", []string{"-i", without.save(t)}, exitError, "record them with --snap=96"},
		{"no bytes", []string{"-i", empty.save(t)}, exitError, "record them with --snap=96"},
		{"two recordings", []string{"-i", without.save(t), "-i", empty.save(t)}, exitUsage, "reads one recording"},
		{"--tree", []string{"--tree"}, exitUsage, "--tree is for --format text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var errs strings.Builder
			code := run(append([]string{"script", "--format", "pcapng", "-o", out}, c.args...), io.Discard, &errs)
			if code != c.code || !strings.Contains(errs.String(), c.want) {
				t.Errorf("exit code %d: %s", code, errs.String())
			}
			if st, err := os.Stat(out); err == nil && st.Size() > 0 {
				t.Errorf("%d bytes were written", st.Size())
			}
		})
	}
}

// TestPcapngHostile: tshark reads all that gperf writes, whatever the fields contain.
func TestPcapngHostile(t *testing.T) {
	for name, values := range hostileFields {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.pcapng")
			var errs strings.Builder
			code := run([]string{"script", "--format", "pcapng", "-o", file, "-i", hostileRecording(values).save(t),
				"--kallsyms", craftedKallsyms(t)}, io.Discard, &errs)
			if _, ok := values["bytes"].([]byte); !ok {
				if code != exitError || !strings.Contains(errs.String(), "--snap") {
					t.Errorf("exit code %d: %s", code, errs.String())
				}
				return
			}
			if got := tshark(t, file); code != exitOK || len(got) != len(allPacketEvents)+1 {
				t.Errorf("exit code %d, %d packets", code, len(got))
			}
		})
	}
}
