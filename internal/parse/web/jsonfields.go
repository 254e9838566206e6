package web

// slot is a meaning that a key of a structured record may have.
type slot uint8

const (
	slotNone slot = iota
	slotAddr
	slotClient // Caddy's verified client, which beats its peer
	slotUser
	slotUserID // of Caddy's access log a name, elsewhere a number
	slotMethod
	slotURI
	slotRequest
	slotStatus
	slotAgent
	slotReferrer
	slotHost
	slotTime
	slotMessage
	slotError
	slotLogger
	slotEvent
	slotSuccess
	slotCredentials // there were some, whatever they were
	slotEnvoy
	slotTraefik
	slotOutcome // only mapped
	slotHeader  // what ClientOptions asks for
	slots
)

// place is where in a record a key stands.
type place uint8

const (
	atTop place = iota
	inRequest
	inHeaders // of the request
	inClient
	inResponse
	inUser
	inOther // and all below it: clients may fill it
)

// enter returns the place that the object of a key is.
func (at place) enter(key []byte) place {
	var buf [32]byte
	k := fold(buf[:0], key)
	switch {
	case at == inRequest && string(k) == "headers":
		return inHeaders
	case at != atTop:
		return inOther
	}
	switch string(k) {
	case "request", "req", "httprequest":
		return inRequest
	case "headers":
		return inHeaders
	case "client", "source", "remote":
		return inClient
	case "response", "res":
		return inResponse
	case "user", "useridentity":
		return inUser
	}
	return inOther
}

// slotOf guesses what a key means where it stands: what nginx's and Envoy's
// documentation suggest, what Caddy (modules/logging, caddyhttp), Traefik
// (pkg/middlewares/accesslog), Elastic's common schema and Google's httpRequest
// write, and what applications usually call it. Keys of objects that clients
// fill (headers, parameters) mean nothing, but for known headers.
func slotOf(at place, key []byte) slot {
	var buf [32]byte
	k := fold(buf[:0], key)
	switch at {
	case atTop:
		return slotTop(k)
	case inRequest:
		return slotInRequest(k)
	case inHeaders:
		return slotInHeaders(k)
	case inClient:
		if s := string(k); s == "ip" || s == "address" {
			return slotAddr
		}
	case inResponse:
		if s := string(k); s == "status" || s == "statuscode" {
			return slotStatus
		}
	case inUser:
		if s := string(k); s == "name" || s == "username" {
			return slotUser
		}
	}
	return slotNone
}

// fold lowers a key and drops what people separate its words with; a key too
// long for dst means nothing.
func fold(dst, key []byte) []byte {
	for _, c := range key {
		switch {
		case c-'A' <= 25:
			c |= 0x20
		case c == '_' || c == '-' || c == '@' || c == ' ':
			continue
		}
		if len(dst) == cap(dst) {
			return nil
		}
		dst = append(dst, c)
	}
	return dst
}

func slotTop(k []byte) slot {
	switch string(k) {
	case "remoteaddr", "remoteaddress", "remoteip", "clientip", "clientaddr", "clientaddress",
		"client", "ip", "ipaddr", "ipaddress", "sourceip", "srcip", "peer", "peerip", "addr",
		"clienthost", "addr.remote", "client.ip", "source.ip", "network.client.ip",
		"meta.remoteip", "visitorip", "sourceipaddress", "userip", "rhost", "cip":
		return slotAddr
	case "downstreamremoteaddress":
		return slotEnvoy
	case "user", "username", "remoteuser", "clientusername", "uname", "login", "email", "user.name":
		return slotUser
	case "userid":
		return slotUserID
	case "method", "requestmethod", "httpmethod", "verb", "http.request.method":
		return slotMethod
	case "uri", "requesturi", "url", "path", "requestpath", "httppath", "url.path", "url.original":
		return slotURI
	case "request":
		return slotRequest
	case "downstreamstatus":
		return slotTraefik
	case "status", "statuscode", "responsestatus", "responsecode", "httpstatus", "httpstatuscode", "http.response.statuscode":
		return slotStatus
	case "useragent", "httpuseragent", "requestuseragent", "ua", "agent", "useragent.original":
		return slotAgent
	case "referer", "referrer", "httpreferer", "httpreferrer", "requestreferer":
		return slotReferrer
	case "host", "httphost", "vhost", "servername", "requesthost", "authority":
		return slotHost
	case "time", "ts", "timestamp", "timelocal", "timeiso8601", "starttime", "eventtime", "t", "date", "datetime", "msec":
		return slotTime
	case "msg", "message":
		return slotMessage
	case "error", "err", "errormessage", "reason":
		return slotError
	case "logger":
		return slotLogger
	case "event", "action", "type":
		return slotEvent
	case "success":
		return slotSuccess
	case "requestauthorization":
		return slotCredentials
	}
	return slotNone
}

func slotInRequest(k []byte) slot {
	switch string(k) {
	case "clientip":
		return slotClient
	case "remoteip", "remoteaddr", "remoteaddress", "ip":
		return slotAddr
	case "method", "requestmethod":
		return slotMethod
	case "uri", "url", "requesturl", "path":
		return slotURI
	case "host":
		return slotHost
	case "useragent":
		return slotAgent
	case "referer":
		return slotReferrer
	case "status":
		return slotStatus
	}
	return slotNone
}

func slotInHeaders(k []byte) slot {
	switch string(k) {
	case "useragent":
		return slotAgent
	case "referer":
		return slotReferrer
	case "authorization":
		return slotCredentials
	}
	return slotNone
}
