package migrate

import "strings"

// stock is what fail2ban's own filters look for, in our words: the events that
// parsing knows already, better than a pattern could.
type stock struct {
	services string // comma separated
	kinds    string // empty: any
	outcome  string // empty: failure
	auth     bool   // its log is the usual one of authentication
}

// stockFilters by their names. "name:mode" is the filter in that mode.
var stockFilters = map[string]stock{
	"sshd":               {services: "sshd", auth: true},
	"dropbear":           {services: "dropbear", auth: true},
	"pam-generic":        {auth: true},
	"apache-auth":        {services: "apache", kinds: "plain, unknown_user"},
	"apache-modsecurity": {services: "apache", kinds: "forbidden, limited"},
	"nginx-http-auth":    {services: "nginx", kinds: "plain, unknown_user"},
	"nginx-limit-req":    {services: "nginx", kinds: "limited"},
	"lighttpd-auth":      {services: "lighttpd"},
	"haproxy-http-auth":  {services: "haproxy"},
	"traefik-auth":       {services: "traefik"},
	"squid":              {services: "squid"},
	"suhosin":            {services: "suhosin"},
	"postfix":            {services: "postfix", kinds: "forbidden, limited"},
	"postfix:auth":       {services: "postfix", kinds: "plain, unknown_user"},
	"postfix:rbl":        {services: "postfix", kinds: "forbidden"},
	"postfix:aggressive": {services: "postfix"},
	"dovecot":            {services: "dovecot"},
	"sieve":              {services: "cyrus"},
	"exim":               {services: "exim"},
	"sendmail-auth":      {services: "sendmail", kinds: "plain, unknown_user"},
	"sendmail-reject":    {services: "sendmail", kinds: "forbidden, limited"},
	"courier-auth":       {services: "courier", kinds: "plain, unknown_user"},
	"courier-smtp":       {services: "courier"},
	"cyrus-imap":         {services: "cyrus"},
	"perdition":          {services: "perdition"},
	"uwimap-auth":        {services: "uw-imap"},
	"solid-pop3d":        {services: "solid-pop3d"},
	"qmail":              {services: "qmail"},
	"vsftpd":             {services: "vsftpd"},
	"proftpd":            {services: "proftpd"},
	"pure-ftpd":          {services: "pure-ftpd"},
	"named-refused":      {services: "named"},
	"asterisk":           {services: "asterisk"},
	"freeswitch":         {services: "freeswitch"},
	"mysqld-auth":        {services: "mysql"},
	"mongodb-auth":       {services: "mongodb"},
	"mssql-auth":         {services: "mssql"},
	"slapd":              {services: "slapd"},
	"grafana":            {services: "grafana"},
	"gitlab":             {services: "gitlab"},
	"guacamole":          {services: "guacamole"},
	"bitwarden":          {services: "bitwarden"},
	"centreon":           {services: "centreon"},
	"directadmin":        {services: "directadmin"},
	"monit":              {services: "monit"},
	"monitorix":          {services: "monitorix"},
	"murmur":             {services: "murmur"},
	"openwebmail":        {services: "openwebmail"},
	"portsentry":         {services: "portsentry"},
	"screensharingd":     {services: "screensharingd"},
	"softethervpn":       {services: "softethervpn"},
	"squirrelmail":       {services: "squirrelmail"},
	"stunnel":            {services: "stunnel"},
	"scanlogd":           {services: "scanlogd"},
	"kerio":              {services: "kerio"},
	"horde":              {services: "horde"},
	"groupoffice":        {services: "groupoffice"},
}

// elsewhere says where something went that is no rule here.
var elsewhere = map[string]string{
	"recidive":             "not needed: block.multiply blocks repeat offenders longer, up to block.max",
	"apache-fakegooglebot": "needs DNS lookups, which stoplog never does",
	"pass2allow-ftp":       "opens ports to clients that request a page; see stoplog allow add ADDR --ttl",
	"apache-pass":          "opens ports to clients that request a page; see stoplog allow add ADDR --ttl",
	"apache-botsearch":     "the built-in rules web count scans (use: [web])",
	"nginx-botsearch":      "the built-in rules web count scans (use: [web])",
	"apache-noscript":      "the built-in rules web count scans (use: [web])",
	"apache-nohome":        "the built-in rules web count scans (use: [web])",
	"php-url-fopen":        "the built-in rules web count scans (use: [web])",
}

// stockOf finds a filter of fail2ban's own by name and mode.
func stockOf(name string, params map[string]string) (stock, bool) {
	if s, ok := stockFilters[name+":"+params["mode"]]; ok {
		return s, true
	}
	s, ok := stockFilters[name]
	return s, ok
}

// probes reports whether the mode also counts connections without a login.
func probes(name string, params map[string]string) bool {
	mode := params["mode"]
	return (name == "sshd" || name == "dropbear") && (mode == "ddos" || mode == "aggressive")
}

func (s stock) match() string {
	var parts []string
	if s.services != "" {
		if strings.Contains(s.services, ",") {
			parts = append(parts, "service: ["+s.services+"]")
		} else {
			parts = append(parts, "service: "+s.services)
		}
	}
	outcome := s.outcome
	if outcome == "" {
		outcome = "failure"
	}
	parts = append(parts, "outcome: "+outcome)
	if s.kinds != "" {
		parts = append(parts, "kind: ["+s.kinds+"]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
