package wire

import (
	"regexp"

	"github.com/agentbus/agentbus/pkg/id"
)

// PushConfig is a TaskPushNotificationConfig: a receiver of push notifications about a task.
type PushConfig struct {
	ID             string          `json:"id,omitempty"`
	TaskID         string          `json:"taskId,omitempty"`
	URL            string          `json:"url"`
	Token          string          `json:"token,omitempty"`
	Authentication *Authentication `json:"authentication,omitempty"`
}

// Authentication is what a notification authenticates with at its receiver.
type Authentication struct {
	Scheme      string `json:"scheme"`
	Credentials string `json:"credentials,omitempty"`
}

// PushPage is the result of ListTaskPushNotificationConfigs.
type PushPage struct {
	Configs       []PushConfig `json:"configs"`
	NextPageToken string       `json:"nextPageToken"`
}

// PushQuery are the parameters of the methods about one receiver, or about all of a task.
type PushQuery struct {
	ID     string `json:"id"`
	TaskID string `json:"taskId"`
}

// maxSecret bounds what a notification sends as credentials, in bytes.
const maxSecret = 4096

var (
	schemePattern = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$")
	secretPattern = regexp.MustCompile(`^[\x20-\x7e]*$`)
)

// DecodePush decodes a receiver.
func DecodePush(body []byte) (PushConfig, error) {
	var p PushConfig
	if err := decode(body, &p, `{"taskId":"…","url":"https://…"}`); err != nil {
		return p, err
	}
	return p, p.Check()
}

// Check returns an error that names the member that is wrong. It does not check the URL.
func (p PushConfig) Check() error {
	switch {
	case p.ID != "" && !id.Valid(p.ID):
		return invalid("id %.80q of the configuration must match ^[A-Za-z0-9_-]{1,64}$", p.ID)
	case p.URL == "":
		return invalid("url is missing; it is the address that notifications are sent to")
	case len(p.Token) > maxSecret || !secretPattern.MatchString(p.Token):
		return invalid("token must have at most %d characters, all of printable ASCII", maxSecret)
	case p.Authentication == nil:
		return nil
	case !schemePattern.MatchString(p.Authentication.Scheme):
		return invalid("authentication.scheme is %.40q, which is not the name of an HTTP authentication scheme", p.Authentication.Scheme)
	case len(p.Authentication.Credentials) > maxSecret || !secretPattern.MatchString(p.Authentication.Credentials):
		return invalid("authentication.credentials must have at most %d characters, all of printable ASCII", maxSecret)
	}
	return nil
}

// DecodePushQuery decodes the parameters.
func DecodePushQuery(body []byte) (PushQuery, error) {
	var q PushQuery
	if err := decode(body, &q, `{"taskId":"…","id":"…"}`); err != nil {
		return q, err
	}
	if q.TaskID == "" {
		return q, invalid("taskId is missing; it is the id of a task")
	}
	return q, nil
}

// EncodeNotification returns the body of a push notification.
func EncodeNotification(t Task) []byte { return encode(Update{Task: &t}) }
