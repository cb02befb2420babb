// Judges whether a history of the directory's operations is linearizable, by porcupine. A history has a line of JSON for
// each operation; crates/directory/tests/directory/history.rs writes it, and make check-directory runs both.
//
// Exit status: 0 if it is linearizable, 1 if it is not, 2 if it cannot be read or judged.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// How long one key may be judged.
const patience = 120 * time.Second

// operation is a line of the history.
type operation struct {
	Client int    `json:"client"`
	Key    string `json:"key"`
	// put, read, acquire, take_over, release, holder
	What string `json:"what"`
	// What makes this operation known: the text of a version, the holder of a lock.
	ID       string `json:"id"`
	Expected uint64 `json:"expected"`
	// Nanoseconds on one clock.
	Call   int64 `json:"call"`
	Return int64 `json:"return"`
	// done, refused, unsure
	Outcome string `json:"outcome"`
	// The version or the epoch that was told; 0 for none.
	Number uint64 `json:"number"`
	// The value that was told.
	Value string `json:"value"`
}

// register is a versioned value, such as a policy or the current version of a site.
type register struct {
	version uint64
	value   string
}

// lock has a holder or none, and the newest epoch.
type lock struct {
	holder string
	epoch  uint64
	newest uint64
}

func states(next ...interface{}) []interface{} { return next }

// stepRegister returns the states that a register may be in after an operation; none where it is impossible.
func stepRegister(now register, op operation) []interface{} {
	switch {
	case op.What == "read":
		if now.version == op.Number && now.value == op.Value {
			return states(now)
		}
	case op.Outcome == "refused":
		if now.version == op.Number && now.version != op.Expected {
			return states(now)
		}
	case op.Outcome == "done":
		if now.version == op.Expected && op.Number == now.version+1 {
			return states(register{op.Number, op.ID})
		}
	case now.version == op.Expected:
		// It is not known whether it was carried out.
		return states(now, register{now.version + 1, op.ID})
	default:
		return states(now)
	}
	return nil
}

// stepLock does the same for a lock.
func stepLock(now lock, op operation) []interface{} {
	mayTake := now.holder == "" || (op.What == "take_over" && now.epoch == op.Expected)
	switch op.What {
	case "holder":
		if now.holder == op.Value && (now.holder == "" || now.epoch == op.Number) {
			return states(now)
		}
	case "release":
		free := lock{"", 0, now.newest}
		switch {
		case now.holder == "" || now.epoch != op.Expected:
			return states(now)
		case op.Outcome == "done":
			return states(free)
		default:
			return states(now, free)
		}
	case "drop":
		// The lease of an acquisition of which nothing is known is dropped at some time, or is not.
		if now.holder == op.ID {
			return states(now, lock{"", 0, now.newest})
		}
		return states(now)
	default:
		switch {
		case op.Outcome == "refused":
			if !mayTake {
				return states(now)
			}
		case op.Outcome == "done":
			// The first epoch is a time, each later one is the next number.
			if mayTake && (now.newest == 0 || op.Number == now.newest+1) {
				return states(lock{op.ID, op.Number, op.Number})
			}
		case !mayTake:
			return states(now)
		case now.newest == 0:
			// Its epoch is not known: any history goes on from a first epoch that was told.
			return states(now)
		default:
			return states(now, lock{op.ID, now.newest + 1, now.newest + 1})
		}
	}
	return nil
}

func model(isLock bool) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []interface{} {
			if isLock {
				return states(lock{})
			}
			return states(register{})
		},
		Step: func(state, input, _ interface{}) []interface{} {
			if isLock {
				return stepLock(state.(lock), input.(operation))
			}
			return stepRegister(state.(register), input.(operation))
		},
	}
	return nondeterministic.ToModel()
}

func read(path string) (map[string][]porcupine.Operation, int, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	keys := map[string][]porcupine.Operation{}
	count := 0
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 0, 1<<16), 1<<20)
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", count+1, err)
		}
		count++
		entry := porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: op.Return}
		if op.Outcome == "unsure" {
			// It may be carried out at any later time.
			entry.Return = math.MaxInt64
		}
		keys[op.Key] = append(keys[op.Key], entry)
		if op.Outcome == "unsure" && (op.What == "acquire" || op.What == "take_over") {
			drop := op
			drop.What = "drop"
			keys[op.Key] = append(keys[op.Key], porcupine.Operation{ClientId: op.Client, Input: drop, Call: op.Call, Return: math.MaxInt64})
		}
	}
	return keys, count, lines.Err()
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: judge HISTORY")
		os.Exit(2)
	}
	keys, count, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(2)
	}
	if count == 0 {
		fmt.Fprintln(os.Stderr, "judge: the history has no operation")
		os.Exit(2)
	}
	status := 0
	unsure := 0
	for key, history := range keys {
		for _, op := range history {
			if op.Input.(operation).Outcome == "unsure" {
				unsure++
			}
		}
		isLock := len(key) > 5 && key[:5] == "lock/"
		switch porcupine.CheckOperationsTimeout(model(isLock), history, patience) {
		case porcupine.Ok:
		case porcupine.Illegal:
			fmt.Printf("%s is not linearizable (%d operations)\n", key, len(history))
			status = 1
		default:
			fmt.Printf("%s was not judged within %s (%d operations)\n", key, patience, len(history))
			if status == 0 {
				status = 2
			}
		}
	}
	if status == 0 {
		fmt.Printf("%d operations on %d keys are linearizable, %d entries of them without a known outcome\n", count, len(keys), unsure)
	}
	os.Exit(status)
}
