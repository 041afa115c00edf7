package pcapfilter

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// protocol describes the packets that the keyword of a protocol selects.
type protocol struct {
	etherType uint32 // of a network protocol, or an LLC SAP up to 1500
	number    uint32 // of a transport protocol
	ipv4      bool   // the transport protocol is carried by IPv4
	ipv6      bool
	sap       bool // etherType is an LLC SAP: the packet contains no bytes to index
}

const (
	etherIPv4      = 0x0800
	etherARP       = 0x0806
	etherRARP      = 0x8035
	etherVLAN      = 0x8100
	etherAppleTalk = 0x809b
	etherAARP      = 0x80f3
	etherIPv6      = 0x86dd
	etherMPLS      = 0x8847
	etherPPPoED    = 0x8863
	etherPPPoES    = 0x8864
	etherQinQ      = 0x88a8
	etherOldQinQ   = 0x9100
	maxLength      = 1500 // larger values of the type field are types
	sapIP          = 0x06
	sapSTP         = 0x42
	sapIPX         = 0xe0
	sapNetBEUI     = 0xf0
	sapISO         = 0xfe
)

const (
	protoTCP      = 6
	protoUDP      = 17
	protoFragment = 44
	protoICMPv6   = 58
	protoSCTP     = 132
)

// protocols is the keywords of protocols. The link layer is "ether".
var protocols = map[string]protocol{
	"ip":      {etherType: etherIPv4},
	"ip6":     {etherType: etherIPv6},
	"arp":     {etherType: etherARP},
	"rarp":    {etherType: etherRARP},
	"decnet":  {etherType: 0x6003},
	"lat":     {etherType: 0x6004},
	"sca":     {etherType: 0x6007},
	"moprc":   {etherType: 0x6002},
	"mopdl":   {etherType: 0x6001},
	"stp":     {etherType: sapSTP, sap: true},
	"netbeui": {etherType: sapNetBEUI, sap: true},
	"iso":     {etherType: sapISO, sap: true},
	"tcp":     {number: protoTCP, ipv4: true, ipv6: true},
	"udp":     {number: protoUDP, ipv4: true, ipv6: true},
	"sctp":    {number: protoSCTP, ipv4: true, ipv6: true},
	"icmp":    {number: 1, ipv4: true},
	"icmp6":   {number: protoICMPv6, ipv6: true},
	"igmp":    {number: 2, ipv4: true},
	"igrp":    {number: 9, ipv4: true},
	"pim":     {number: 103, ipv4: true, ipv6: true},
	"vrrp":    {number: 112, ipv4: true},
	"carp":    {number: 112, ipv4: true},
	"ah":      {number: 51, ipv4: true, ipv6: true},
	"esp":     {number: 50, ipv4: true, ipv6: true},
}

// etherTypes is the names after "ether proto", besides the network protocols.
var etherTypes = map[string]uint32{"loopback": 0x9000}

// keywords is the other words of the language. Suggestions prefer the first ones.
var keywords = []string{"host", "port", "proto", "net", "src", "dst", "portrange", "mask", "ether", "link", "broadcast",
	"multicast", "less", "greater", "len", "length", "vlan", "mpls", "pppoed", "pppoes", "and", "or", "not"}

// unsupported is words of pcap-filter(7) that are refused, with the reason.
var unsupported = map[string]string{
	"protochain": "a program without loops cannot follow a chain of headers",
	"gateway":    "gperf does not look up names",
	"geneve":     "inner headers of Geneve are not supported",
	"inbound":    "the packet's bytes do not contain its direction",
	"outbound":   "the packet's bytes do not contain its direction",
	"ifindex":    "the packet's bytes do not contain its interface",
	"byte":       `write "ether[offset]"`,
	"atalk":      "AppleTalk is not supported",
	"aarp":       "AppleTalk is not supported",
	"ipx":        "IPX is not supported",
	"fddi":       "only Ethernet is supported",
	"tr":         "only Ethernet is supported",
	"wlan":       "only Ethernet is supported",
	"ppp":        "only Ethernet is supported",
	"slip":       "only Ethernet is supported",
	"radio":      "only Ethernet is supported",
	"type":       "only Ethernet is supported",
	"subtype":    "only Ethernet is supported",
}

// constants is the names of offsets and values in ICMP, ICMPv6 and TCP headers.
var constants = map[string]uint32{
	"icmptype": 0, "icmpcode": 1, "icmp-echoreply": 0, "icmp-unreach": 3, "icmp-sourcequench": 4, "icmp-redirect": 5,
	"icmp-echo": 8, "icmp-routeradvert": 9, "icmp-routersolicit": 10, "icmp-timxceed": 11, "icmp-paramprob": 12,
	"icmp-tstamp": 13, "icmp-tstampreply": 14, "icmp-ireq": 15, "icmp-ireqreply": 16, "icmp-maskreq": 17,
	"icmp-maskreply": 18,

	"icmp6type": 0, "icmp6code": 1, "icmp6-destinationunreach": 1, "icmp6-packettoobig": 2, "icmp6-timeexceeded": 3,
	"icmp6-parameterproblem": 4, "icmp6-echo": 128, "icmp6-echoreply": 129, "icmp6-multicastlistenerquery": 130,
	"icmp6-multicastlistenerreportv1": 131, "icmp6-multicastlistenerdone": 132, "icmp6-routersolicit": 133,
	"icmp6-routeradvert": 134, "icmp6-neighborsolicit": 135, "icmp6-neighboradvert": 136, "icmp6-redirect": 137,
	"icmp6-routerrenum": 138, "icmp6-nodeinformationquery": 139, "icmp6-nodeinformationresponse": 140,
	"icmp6-ineighbordiscoverysolicit": 141, "icmp6-ineighbordiscoveryadvert": 142,
	"icmp6-multicastlistenerreportv2": 143, "icmp6-homeagentdiscoveryrequest": 144,
	"icmp6-homeagentdiscoveryreply": 145, "icmp6-mobileprefixsolicit": 146, "icmp6-mobileprefixadvert": 147,
	"icmp6-certpathsolicit": 148, "icmp6-certpathadvert": 149, "icmp6-multicastrouteradvert": 151,
	"icmp6-multicastroutersolicit": 152, "icmp6-multicastrouterterm": 153,

	"tcpflags": 13, "tcp-fin": 0x01, "tcp-syn": 0x02, "tcp-rst": 0x04, "tcp-push": 0x08, "tcp-ack": 0x10,
	"tcp-urg": 0x20, "tcp-ece": 0x40, "tcp-cwr": 0x80,
}

// allWords returns the words of the language, for suggestions.
func allWords() []string {
	return slices.Concat(keywords, slices.Sorted(maps.Keys(protocols)), slices.Sorted(maps.Keys(constants)))
}

func isKeyword(word string) bool {
	_, isProtocol := protocols[word]
	_, isConstant := constants[word]
	_, isUnsupported := unsupported[word]
	return isProtocol || isConstant || isUnsupported || slices.Contains(keywords, word)
}

// commonServices is the services for machines without /etc/services.
const commonServices = `
ftp-data 20/tcp
ftp 21/tcp
ssh 22/tcp
telnet 23/tcp
smtp 25/tcp mail
domain 53/tcp
domain 53/udp
bootps 67/udp
bootpc 68/udp
tftp 69/udp
http 80/tcp www
kerberos 88/tcp
kerberos 88/udp
pop3 110/tcp
sunrpc 111/tcp
sunrpc 111/udp
ntp 123/udp
netbios-ns 137/udp
imap2 143/tcp imap
snmp 161/tcp
snmp 161/udp
bgp 179/tcp
ldap 389/tcp
ldap 389/udp
https 443/tcp
https 443/udp
microsoft-ds 445/tcp
submission 587/tcp
ldaps 636/tcp
imaps 993/tcp
pop3s 995/tcp
nfs 2049/tcp
nfs 2049/udp
mysql 3306/tcp
postgresql 5432/tcp
sip 5060/tcp
sip 5060/udp
mdns 5353/udp
`

// commonProtocols is the protocols for machines without /etc/protocols.
const commonProtocols = `
icmp 1
igmp 2
ipencap 4
tcp 6
egp 8
igp 9
udp 17
ipv6 41
rsvp 46
gre 47
esp 50
ah 51
ipv6-icmp 58 icmp6
eigrp 88
ospf 89
ipip 94
pim 103
vrrp 112
l2tp 115
sctp 132
udplite 136
`

// numbers is the numbers of names by protocol: ports by "tcp" and "udp", and protocols by "".
type numbers map[string]map[string]uint32

var services = sync.OnceValue(func() numbers { return readNames("/etc/services", commonServices) })

var ipProtocols = sync.OnceValue(func() numbers { return readNames("/etc/protocols", commonProtocols) })

// readNames reads a file in the format of services(5) or protocols(5), and adds the common names that the file
// lacks.
func readNames(file, common string) numbers {
	text, _ := os.ReadFile(file) // without the file, the common names are known
	names := parseNames(string(text))
	for name, byProto := range parseNames(common) {
		if names[name] == nil {
			names[name] = byProto
		}
	}
	return names
}

// parseNames parses lines of a name, a number, perhaps a slash and a protocol, and aliases.
func parseNames(text string) numbers {
	names := numbers{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		digits, proto, _ := strings.Cut(words[1], "/")
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			continue
		}
		for _, name := range append(words[:1:1], words[2:]...) {
			if names[name] == nil {
				names[name] = map[string]uint32{}
			}
			if _, ok := names[name][proto]; !ok {
				names[name][proto] = uint32(n)
			}
		}
	}
	return names
}

// servicePort returns the port of a service, and the number of the only protocol with the service, or 0. If the
// ports of a name differ, it returns TCP's, as libpcap does.
func servicePort(name string) (port, proto uint32, ok bool) {
	ports := services()[name]
	tcp, hasTCP := ports["tcp"]
	udp, hasUDP := ports["udp"]
	switch {
	case hasTCP && hasUDP && tcp == udp:
		return tcp, 0, true
	case hasTCP:
		return tcp, protoTCP, true
	}
	return udp, protoUDP, hasUDP
}
