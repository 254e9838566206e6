package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"stoplog/internal/httpd"
)

// maxBody bounds a request: an order is a few hundred bytes.
const maxBody = 64 << 10

// ErrBadOrder marks an order that can never succeed (a malformed address);
// the client exits with the code for usage.
var ErrBadOrder = errors.New("invalid request")

// BadOrder makes an error that is ErrBadOrder and says why in its own words.
func BadOrder(format string, args ...any) error {
	return badOrder{fmt.Sprintf(format, args...)}
}

// badOrder carries ErrBadOrder over the wire without repeating its words.
type badOrder struct{ msg string }

func (e badOrder) Error() string        { return e.msg }
func (e badOrder) Is(target error) bool { return target == ErrBadOrder }

// limits: who may open the socket is root, or trusted like it.
var limits = httpd.Limits{Conns: 256, PerHost: 256, Header: 16 << 10, Write: 30 * time.Second, Idle: 30 * time.Second, Goodbye: time.Second}

// Serve answers requests on l until ctx ends or l fails; it closes l.
func Serve(ctx context.Context, l net.Listener, d Daemon) error {
	return httpd.Server{Handler: handler(d), Limits: limits, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, peerOf(c))
	}}.Serve(ctx, l)
}

func handler(d Daemon) http.Handler {
	mux := http.NewServeMux()
	get(mux, "/status", func(ctx context.Context, _ struct{}) (Status, error) { return d.Status(ctx) })
	get(mux, "/list", func(ctx context.Context, _ struct{}) ([]Block, error) { return d.List(ctx) })
	get(mux, "/allow", func(ctx context.Context, _ struct{}) ([]AllowEntry, error) { return d.Allowed(ctx) })
	get(mux, "/flags", func(ctx context.Context, _ struct{}) ([]FlagEntry, error) { return d.Flags(ctx) })
	post(mux, "/explain", func(ctx context.Context, o Order) (Explanation, error) { return d.Explain(ctx, o.Target) })
	post(mux, "/history", d.History)
	get(mux, "/live", func(ctx context.Context, _ struct{}) (Live, error) { return d.Live(ctx) })
	post(mux, "/find", d.Find)
	post(mux, "/trend", d.Trend)
	post(mux, "/walk", d.Walk)
	post(mux, "/block", signed(d.Block))
	post(mux, "/unblock", signed(d.Unblock))
	post(mux, "/allow", signed(d.Allow))
	post(mux, "/disallow", signed(d.Disallow))
	post(mux, "/flag/set", signedFlag(d.SetFlag))
	post(mux, "/flag/clear", signedFlag(d.ClearFlag))
	post(mux, "/fleet/order", d.FleetOrder)
	post(mux, "/reload", func(ctx context.Context, _ struct{}) (Answer, error) { return d.Reload(ctx) })
	return mux
}

// signed puts the peer's name on an order: a request cannot choose it.
func signed(do func(context.Context, Order) (Answer, error)) func(context.Context, Order) (Answer, error) {
	return func(ctx context.Context, o Order) (Answer, error) {
		o.By = peer(ctx)
		return do(ctx, o)
	}
}

func signedFlag(do func(context.Context, FlagOrder) (Answer, error)) func(context.Context, FlagOrder) (Answer, error) {
	return func(ctx context.Context, o FlagOrder) (Answer, error) {
		o.By = peer(ctx)
		return do(ctx, o)
	}
}

func get[A any](mux *http.ServeMux, path string, do func(context.Context, struct{}) (A, error)) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		a, err := do(r.Context(), struct{}{})
		reply(w, a, err)
	})
}

func post[Q, A any](mux *http.ServeMux, path string, do func(context.Context, Q) (A, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var q Q
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&q); err != nil && !errors.Is(err, io.EOF) {
			var none A
			reply(w, none, BadOrder("reading the request: %v", err))
			return
		}
		a, err := do(r.Context(), q)
		reply(w, a, err)
	})
}

// failure is the body of an answer that is none.
type failure struct {
	Error string `json:"error"`
}

func reply(w http.ResponseWriter, a any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		code := http.StatusInternalServerError
		if errors.Is(err, ErrBadOrder) {
			code = http.StatusBadRequest
		}
		w.WriteHeader(code)
		a = failure{Error: err.Error()}
	}
	// A client that went away is the only way to fail, and it won't hear of it.
	_ = json.NewEncoder(w).Encode(a)
}
