package web

import (
	"strings"
	"testing"

	"stoplog/internal/parse/event"
)

func TestPlacesOfARecord(t *testing.T) {
	for _, c := range []struct {
		at   place
		key  string
		want place
	}{
		{atTop, "request", inRequest},
		{atTop, "Request", inRequest},
		{atTop, "req", inRequest},
		{atTop, "httpRequest", inRequest},
		{atTop, "headers", inHeaders},
		{inRequest, "headers", inHeaders},
		{atTop, "client", inClient},
		{atTop, "source", inClient},
		{atTop, "remote", inClient},
		{atTop, "res", inResponse},
		{atTop, "response", inResponse},
		{atTop, "user", inUser},
		{atTop, "userIdentity", inUser},
		{atTop, "params", inOther},
		{atTop, "", inOther},
		{atTop, "_", inOther},
		{atTop, strings.Repeat("x", 100), inOther},
		{inOther, "request", inOther},
		{inOther, "headers", inOther},
		{inHeaders, "request", inOther},
		{inRequest, "client", inOther},
		{inClient, "headers", inOther},
	} {
		if got := c.at.enter([]byte(c.key)); got != c.want {
			t.Errorf("%d, %q: got %d, want %d", c.at, c.key, got, c.want)
		}
	}
}

func TestSlots(t *testing.T) {
	for _, c := range []struct {
		at   place
		keys string
		want slot
	}{
		{atTop, "remote_addr remoteAddr RemoteAddr remote_ip remote-ip client_ip clientIP ClientHost ClientAddr ip ip_address source_ip peer addr.remote visitor_ip sourceIPAddress", slotAddr},
		{atTop, "x_forwarded_for server_addr upstream_addr request_Client-Ip realip host_ip proxy_addr local_addr", slotNone},
		{atTop, "user username user_name remote_user ClientUsername uname login email", slotUser},
		{atTop, "user_id", slotUserID},
		{atTop, "method request_method RequestMethod http_method verb", slotMethod},
		{atTop, "uri request_uri url path RequestPath http_path", slotURI},
		{atTop, "request", slotRequest},
		{atTop, "DownstreamStatus", slotTraefik},
		{atTop, "status status_code statusCode response_status response_code http_status httpStatus", slotStatus},
		{atTop, "user_agent userAgent http_user_agent request_User-Agent ua", slotAgent},
		{atTop, "referer referrer http_referer request_Referer", slotReferrer},
		{atTop, "host http_host vhost server_name RequestHost", slotHost},
		{atTop, "time ts timestamp @timestamp time_local time_iso8601 start_time t datetime msec eventTime", slotTime},
		{atTop, "msg message", slotMessage},
		{atTop, "error err errorMessage reason", slotError},
		{atTop, "event action type", slotEvent},
		{atTop, "success", slotSuccess},
		{atTop, "request_Authorization", slotCredentials},
		{inRequest, "client_ip", slotClient},
		{inRequest, "remote_ip remoteAddress remote_addr ip remoteIp", slotAddr},
		{inRequest, "method requestMethod", slotMethod},
		{inRequest, "uri url requestUrl path", slotURI},
		{inRequest, "host", slotHost},
		{inRequest, "userAgent", slotAgent},
		{inRequest, "referer", slotReferrer},
		{inRequest, "status", slotStatus},
		{inRequest, "body user msg time", slotNone},
		{inHeaders, "User-Agent user-agent", slotAgent},
		{inHeaders, "Referer", slotReferrer},
		{inHeaders, "Authorization", slotCredentials},
		{inHeaders, "Client-Ip Remote-Addr X-Real-Ip ip status", slotNone},
		{inClient, "ip address", slotAddr},
		{inClient, "port name", slotNone},
		{inResponse, "status statusCode status_code", slotStatus},
		{inResponse, "ip", slotNone},
		{inUser, "name userName", slotUser},
		{inUser, "ip id", slotNone},
		{inOther, "ip remote_addr status user msg", slotNone},
	} {
		for _, key := range strings.Fields(c.keys) {
			if got := slotOf(c.at, []byte(key)); got != c.want {
				t.Errorf("%d, %q: got %d, want %d", c.at, key, got, c.want)
			}
		}
	}
}

func TestHeaderKey(t *testing.T) {
	for _, c := range []struct {
		key, header string
		want        bool
	}{
		{"x-forwarded-for", "x-forwarded-for", true},
		{"X-Forwarded-For", "x-forwarded-for", true},
		{"http_x_forwarded_for", "x-forwarded-for", true},
		{"request_X-Forwarded-For", "x-forwarded-for", true},
		{"cf_connecting_ip", "cf-connecting-ip", true},
		{"proxy_protocol_addr", "proxy-protocol", true},
		{"x-forwarded-fo", "x-forwarded-for", false},
		{"http_", "x-forwarded-for", false},
		{"http_http_x_forwarded_for", "x-forwarded-for", false},
		{"my_x_forwarded_for", "x-forwarded-for", false},
	} {
		if got := headerKey([]byte(c.key), c.header); got != c.want {
			t.Errorf("%s, %s: got %v", c.key, c.header, got)
		}
	}
}

// Whether a text is a JSON object is decided to its last byte.
func TestJSONShape(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`:                              true,
		`{ "a" : 1 , "b" : [ ] }`:         true,
		`{"a":[1,"x",{"b":null},[true]]}`: true,
		`{"a":"\""}`:                      true,
		`{"a":"\\"}`:                      true,
		`{"a":"\x22"}`:                    true,
		`{"a":{"b":{"c":{"d":{}}}}}`:      true,
		`{"a":-1.5e9,"b":false}`:          true,
		``:                                false,
		`{`:                               false,
		`{"a"`:                            false,
		`{"a":`:                           false,
		`{"a":1`:                          false,
		`{"a":1,`:                         false,
		`{"a":1,}`:                        false,
		`{"a" 1}`:                         false,
		`{a:1}`:                           false,
		`{"a":}`:                          false,
		`{"a":"x}`:                        false,
		`{"a":"\"}`:                       false,
		`{"a":[1,2}`:                      false,
		`{"a":[1 2]}`:                     false,
		`{"a":[}`:                         false,
		`{"a":1 2}`:                       false,
		`{"a":x"y"}`:                      false,
		`{"a":1}}`:                        false,
		strings.Repeat(`{"a":`, 20) + `1` + strings.Repeat(`}`, 20): false,
	} {
		var r entry
		end := -1
		if strings.HasPrefix(text, "{") {
			end = r.walkObject([]byte(text), 0, atTop, nil, 0)
		}
		if got := end == len(text); got != want {
			t.Errorf("%s: got %v (%d of %d)", text, got, end, len(text))
		}
	}
}

func TestSaid(t *testing.T) {
	for _, c := range []struct {
		line string
		want event.Outcome
		kind event.Kind
	}{
		{`{"msg":"Login failed"`, event.Failure, event.Plain},
		{`{"message":"LOGIN FAILED for bob"`, event.Failure, event.Plain},
		{`{"error":"invalid credentials"`, event.Failure, event.Plain},
		{`{"msg":"Failed login attempt","error":"no such user"`, event.Failure, event.UnknownUser},
		{`{"action":"login_failed"`, event.Failure, event.Plain},
		{`{"event":"user.login","success":false`, event.Failure, event.Plain},
		{`{"event":"session.auth","success":true`, event.Success, event.Plain},
		{`{"event":"backup","success":false`, event.Other, event.Plain},
		{`{"msg":"login page shown"`, event.Other, event.Plain},
		{`{"msg":"` + strings.Repeat("x", 300) + `login failed"`, event.Other, event.Plain},
	} {
		var r entry
		r.walkObject([]byte(c.line+`}`), 0, atTop, nil, 0)
		if got := r.said(); got != c.want {
			t.Errorf("%.60s: got %v, want %v", c.line, got, c.want)
		}
		if c.want == event.Failure && r.unknownUser() != (c.kind == event.UnknownUser) {
			t.Errorf("%.60s: unknown user: got %v", c.line, r.unknownUser())
		}
	}
}
