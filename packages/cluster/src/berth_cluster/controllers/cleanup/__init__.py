"""Controllers that remove what nobody needs: objects without owners, terminating namespaces, pods of lost nodes."""
