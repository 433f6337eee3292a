-- +goose Up
ALTER TABLE tasks ADD COLUMN answers TEXT NOT NULL DEFAULT '[]'; -- JSON: the results of the task's actions
