package hubapi

import (
	"fmt"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// Offline returns the message about an agent that went offline during a task (TARS hub protocol, Agent Goes Offline
// Mid-Task).
func Offline(agentID, task string) string {
	return fmt.Sprintf("Agent [%s] went offline while working on [%s]. The task may be partially complete.", agentID, task)
}

// maxTitle is how much of a task its title shows.
const maxTitle = 120

// Title is the start of a task's description, on one line.
func Title(task string) string {
	task = strings.Join(strings.Fields(task), " ")
	if runes := []rune(task); len(runes) > maxTitle {
		return string(runes[:maxTitle-1]) + "…"
	}
	return task
}

// Working is the first line of a task's progress, Done the last (TARS hub protocol, What the User Sees).
func Working(agentName string) string { return "[" + agentName + " - Working]" }

// Done describes how a task ended, on one line.
func Done(t Task) string {
	spent := fmt.Sprintf("(%s, $%.2f)", turns(t.TurnsCompleted), t.CostUSD)
	switch t.Status {
	case remoteagent.Completed:
		if len(t.Denials) > 0 {
			return "> Done, without what was denied: " + Denied(t.Denials) + " " + spent
		}
		return "> Done! " + spent
	case remoteagent.Cancelled:
		return "> Cancelled " + spent
	case remoteagent.MaxTurns:
		return "> Stopped at the turn limit " + spent
	case remoteagent.MaxBudget:
		return "> Stopped at the budget limit " + spent
	default:
		return "> Failed: " + Title(t.Error) + " " + spent
	}
}

// maxDenials is how many denials a text names.
const maxDenials = 5

// Denied names the calls of denials, of which there is at least one, with the reason of the first.
func Denied(all []remoteagent.Denial) string {
	var names []string
	for _, d := range all[:min(len(all), maxDenials)] {
		names = append(names, strings.TrimSpace(d.Tool+" "+d.File))
	}
	text := strings.Join(names, ", ")
	if more := len(all) - maxDenials; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if reason := Title(all[0].Reason); reason != "" {
		text += " (" + reason + ")"
	}
	return text
}

// Needs describes an action that a task waits for, on one line.
func Needs(a remoteagent.Action) string {
	if a.Kind == event.ContinueInput {
		return "Waits for an answer: " + Title(a.Question)
	}
	return "Waits for an approval of " + a.Tool + " " + Title(string(a.Input))
}

// needed describes the actions of a task for a model.
func needed(t Task) (lines []string) {
	for _, a := range t.Actions {
		lines = append(lines, fmt.Sprintf("%s (action_id %s, until %s)", Needs(a), a.ActionID, a.ExpiresAt.UTC().Format(time.RFC3339)))
	}
	if len(lines) > 0 {
		lines = append(lines, "Ask the user, and give the decision by answer_task.")
	}
	return lines
}

func turns(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprintf("%d turns", n)
}

func assignedText(t Task) string {
	session := "the agent has not named its session yet"
	if t.SessionID != "" {
		session = "sessionId " + t.SessionID
	}
	return fmt.Sprintf("%s has taken the task: taskId %s, %s, status %s.", name(t), t.TaskID, session, t.Status)
}

func statusText(t Task) string {
	if t.Status.Finished() {
		return ResultText(t)
	}
	lines := []string{fmt.Sprintf("Task %s on %s is %s: %s, $%.2f so far.", t.TaskID, name(t), t.Status, turns(t.TurnsCompleted), t.CostUSD)}
	if t.LastActivity != "" {
		lines = append(lines, "Last activity: "+t.LastActivity)
	}
	return strings.Join(append(append(lines, needed(t)...), notice(t)...), "\n")
}

// ResultText is what get_result says of a task.
func ResultText(t Task) string {
	if !t.Status.Finished() {
		lines := []string{fmt.Sprintf("Task %s on %s is still running (%s, $%.2f so far). Wait, or check back later.",
			t.TaskID, name(t), turns(t.TurnsCompleted), t.CostUSD)}
		return strings.Join(append(append(lines, needed(t)...), notice(t)...), "\n")
	}
	lines := []string{fmt.Sprintf("Task %s on %s: %s (%s, $%.2f).", t.TaskID, name(t), t.Status, turns(t.TurnsCompleted), t.CostUSD)}
	if t.Error != "" {
		lines = append(lines, "Error: "+t.Error)
	}
	if t.Status != remoteagent.Completed && t.SessionID != "" {
		lines = append(lines, "Its session can be resumed: "+t.SessionID)
	}
	if len(t.Denials) > 0 {
		lines = append(lines, "Denied calls, whose effect is missing: "+Denied(t.Denials)+
			". Assign the task again with a permission_mode or allowed_tools that permit them, if the user agrees.")
	}
	if len(t.FilesModified) > 0 {
		lines = append(lines, "Files modified: "+strings.Join(t.FilesModified, ", "))
	}
	if t.Result != "" {
		lines = append(lines, "", t.Result)
	}
	return strings.Join(lines, "\n")
}

func notice(t Task) []string {
	if t.Notice == "" {
		return nil
	}
	return []string{t.Notice}
}

func name(t Task) string { return fmt.Sprintf("%s (%s)", t.AgentName, t.AgentID) }

func listText(l AgentList) string {
	if len(l.Agents) == 0 {
		return "No agents are registered."
	}
	var lines []string
	for _, a := range l.Agents {
		lines = append(lines, agentText(a))
	}
	return strings.Join(append(lines, fmt.Sprintf("Cost of all tasks: $%.2f", l.TotalCostUSD)), "\n")
}

func agentText(a Agent) string {
	state := "offline"
	if a.IsOnline {
		state = "online"
	}
	if a.Status != "" {
		state += ", " + a.Status
	}
	if a.CurrentTask != "" {
		state += " with: " + a.CurrentTask
	}
	text := fmt.Sprintf("%s: %s [%s]", a.ID, a.Name, state)
	if len(a.Capabilities) > 0 {
		text += " can " + strings.Join(a.Capabilities, ", ")
	}
	if a.DefaultCwd != "" {
		text += "; works in " + a.DefaultCwd
	}
	if a.DefaultPermissionMode != "" {
		text += "; permission mode " + string(a.DefaultPermissionMode)
	}
	return text + fmt.Sprintf("; $%.2f", a.CostUSD)
}
